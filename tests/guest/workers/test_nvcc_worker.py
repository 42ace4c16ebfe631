"""Translation units end to end under a scripted toolkit: real worker, real rules."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flacheck.guest.engine import confinement
from flacheck.guest.workers import nvcc_worker
from flacheck.guest.workers.cuda_units import UnitRefused
from flacheck.model import Record
from flacheck.pipeline import planning
from flacheck.pipeline import run as runs
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.made_toolkit import MISMATCH, project, toolkit


def scan_units(
    tmp_path: Path, store: Store, text: str, target: str = "sm90a", until: str | None = None
) -> list[Record]:
    """The records of a project of one unit under a toolkit of its own."""
    if not (tmp_path / "cuda-13.9.7").exists():
        toolkit(tmp_path)
    root = project(tmp_path, unit=text)
    selection = Selection(targets=(target,), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection, until=until))
    return sorted(records_of(plan, store, RunOptions(timeout=20, jobs=1)), key=_element)


def _element(record: Record) -> str:
    assert record.launch is not None
    return str(record.launch.args["ELEMENT"]["constexpr"])


def test_one_instantiation_fails_and_the_other_compiles(tmp_path: Path, store: Store) -> None:
    """The finding has its code and the front end's stage."""
    bf16, fp8 = scan_units(tmp_path, store, f"// if ELEMENT=fp8 says {MISMATCH} exit 2")
    assert (bf16.verdict.value, bf16.stage) == ("compiles", "object")
    assert (fp8.verdict.value, fp8.code, fp8.stage) == ("fails", "FC801", "syntax")
    assert fp8.how == "unit" and fp8.kernel == "csrc/unit.cu"


def test_what_each_function_asks_for_is_recorded(tmp_path: Path, store: Store) -> None:
    """The record's figures are those of the function with the most, and each function has its
    own."""
    record, _ = scan_units(tmp_path, store, "")
    resources = record.resources
    assert (resources["registers"], resources["shared"], resources["stack"]) == (96, 2048, 16)
    assert [each["registers"] for each in resources["functions"]] == [40, 96]
    assert resources["functions"][0]["name"] == "k(float*)"


@pytest.mark.slow
def test_seconds_are_processor_time(tmp_path: Path, store: Store) -> None:
    """A unit whose compiler waits on a busy machine is not slow."""
    records = scan_units(tmp_path, store, "// waits")
    assert len(records) == 2
    for record in records:
        # The front end waits for 1.2 s, and so does the whole compile.
        assert 0 < record.seconds < 2


def test_a_file_outside_of_the_project_is_not_shown(tmp_path: Path, store: Store) -> None:
    """The unit is refused before the compiler prints any of it."""
    text = "// includes /etc/passwd\n// if ELEMENT=fp8 says root:x:0:0: error: exit 2"
    records = scan_units(tmp_path, store, text)
    assert len(records) == 2
    for record in records:
        assert (record.verdict.value, record.code) == ("unknown", "FC812")
        assert "/etc/passwd" in record.message
        assert "root:x" not in str(record.to_json())


def test_a_link_out_of_the_project_is_followed_before_it_is_judged(
    tmp_path: Path, store: Store
) -> None:
    """A link in the project to a file outside counts as outside."""
    secret = tmp_path / "secret.h"
    secret.write_text("int key = 42;")
    link = tmp_path / "link.h"
    link.symlink_to(secret)
    record, _ = scan_units(tmp_path, store, f"// includes {link}")
    assert record.code == "FC812", record.message


@pytest.mark.skipif(
    not confinement.available_confinement()["landlock"], reason="this kernel has no Landlock"
)
def test_a_file_that_nvcc_does_not_announce_is_not_shown(tmp_path: Path, store: Store) -> None:
    """An assembler's `.include` is read by a program far below nvcc: the kernel refuses it, and the
    unit is not called failing for that."""
    secret = tmp_path / "secret"
    secret.write_text("hush")
    records = scan_units(tmp_path, store, f"// reads {secret}")
    assert len(records) == 2
    for record in records:
        assert (record.verdict.value, record.code) == ("unknown", "FC812")
        assert str(secret) in record.message
        assert "hush" not in str(record.to_json())


def test_a_unit_that_is_a_link_out_of_the_project_is_refused(tmp_path: Path) -> None:
    """The unit is refused before a compiler opens it, also where the kernel does not confine."""
    secret = tmp_path / "secret.cu"
    secret.write_text("hush")
    root = tmp_path / "project"
    root.mkdir()
    (root / "unit.cu").symlink_to(secret)
    with pytest.raises(
        UnitRefused, match=r"unit includes unit\.cu, which is in none of its folders"
    ):
        compilation = nvcc_worker.NvccCompilation([], str(root), "", lambda stage: None)
        compilation.allowed_folders = [str(root)]
        compilation.check("unit.cu")


class _LateCompilation(nvcc_worker.NvccCompilation):
    """A compilation that judges an included file after its compiler has ended."""

    def check(self, file: str) -> None:
        time.sleep(0.5)
        super().check(file)


def test_a_unit_is_refused_whose_compiler_has_ended_by_itself(tmp_path: Path) -> None:
    """The unit is refused although its compiler has ended, rather than being reported as failed."""
    nvcc = ["sh", "-c", "echo '. /etc/passwd' >&2"]
    compilation = _LateCompilation(nvcc, str(tmp_path), str(tmp_path), lambda stage: None)
    compilation.allowed_folders = [str(tmp_path)]
    with pytest.raises(UnitRefused, match="includes /etc/passwd"):
        compilation.run([], "syntax")


def test_a_compiler_that_is_killed_says_nothing_of_the_unit(tmp_path: Path, store: Store) -> None:
    """Anybody may have killed it; it is compiled again by the next scan."""
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        record, _ = scan_units(folder, store, "// dies")
        assert (record.verdict.value, record.code) == ("unknown", "FC905")
        assert not record.cached


def test_a_unit_without_memory_is_asked_again_with_more(tmp_path: Path, store: Store) -> None:
    """The unit fails again with the same limit and runs with more, as the remedy states."""
    toolkit(tmp_path)
    root = project(tmp_path, unit="// starves")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))

    def cached(memory_mb: int) -> set[bool]:
        options = RunOptions(timeout=20, jobs=1, memory_mb=memory_mb)
        return {record.cached for record in records_of(plan, store, options)}

    assert [cached(memory) for memory in (1000, 1000, 2000, 2000, 1000)] == [
        {False},
        {True},
        {False},
        {True},
        {True},
    ]


@pytest.mark.parametrize(("memory_mb", "verdict"), [(8192, "compiles"), (9000, "unknown")])
def test_a_unit_gets_most_of_the_machine_if_the_default_limit_is_too_low(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, memory_mb: int, verdict: str
) -> None:
    """A limit that the user chose is kept."""
    monkeypatch.setattr(runs, "machine_memory_mb", lambda: 16000.0)
    toolkit(tmp_path)
    root = project(tmp_path, unit="// needs 12000 MB")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))
    options = RunOptions(timeout=20, jobs=1, memory_mb=memory_mb)
    assert {each.verdict.value for each in records_of(plan, store, options)} == {verdict}
    # A second run has the limit of the first.
    assert {each.cached for each in records_of(plan, store, options)} == {True}


def test_a_failure_of_the_assembler_has_its_stage(tmp_path: Path, store: Store) -> None:
    """The stage follows from the program that nvcc starts."""
    record, _ = scan_units(tmp_path, store, "// ptxas")
    assert (record.code, record.stage) == ("FC501", "cubin")


def test_a_target_that_the_toolkit_does_not_know_is_skipped(tmp_path: Path, store: Store) -> None:
    """Features that no GPU of that architecture has are skipped too."""
    record, _ = scan_units(tmp_path, store, "", target="sm120a")
    assert (record.verdict.value, record.reason) == (
        "skipped",
        "nvcc 13.9.7 does not support sm120",
    )


def test_the_quick_look_ends_a_scan_until_syntax(tmp_path: Path, store: Store) -> None:
    """`--until syntax` starts no assembler."""
    record, _ = scan_units(tmp_path, store, "// ptxas", until="syntax")
    assert (record.verdict.value, record.reason) == ("compiles", "up to syntax")


def test_the_front_end_stops_after_a_few_errors(tmp_path: Path, store: Store) -> None:
    """A template that fails in each instantiation would take the memory of a hundred errors."""
    for record in scan_units(tmp_path, store, "// arguments", until="syntax"):
        assert "-Xcudafe=--error_limit=12" in record.message.split()


def test_the_command_has_the_builds_own_words_and_the_scans_target(
    tmp_path: Path, store: Store
) -> None:
    """Defines, folders and harmless flags are the build's; GPU and host compiler are the scan's."""
    record, _ = scan_units(tmp_path, store, "// arguments")
    words = record.message.partition("\n")[0].split()
    assert {"-DELEMENT=bf16", "-O3", "-gencode=arch=compute_90a,code=sm_90a"} <= set(words)
    assert words[words.index("-I") + 1] == "csrc"
    assert "-arch=sm_90a" not in words


@pytest.mark.parametrize("value", ["$(touch ran)", "`touch ran`", '"; touch ran; "'])
def test_nothing_that_a_shell_acts_upon_reaches_the_compiler(
    tmp_path: Path, store: Store, value: str
) -> None:
    """nvcc hands its commands to a shell."""
    toolkit(tmp_path)
    root = project(tmp_path, unit="")
    quote = value.replace('"', '\\"')
    entry = f'{{"directory": ".", "arguments": ["nvcc", "-DX={quote}", "-c", "csrc/unit.cu"]}}'
    (root / "compile_commands.json").write_text(f"[{entry}]")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))
    (record,) = records_of(plan, store, RunOptions(timeout=20, jobs=1))
    assert (record.verdict.value, record.code) == ("unknown", "FC812")
    assert "a shell acts upon" in record.message
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.slow
def test_a_unit_that_hangs_is_stopped(tmp_path: Path, store: Store) -> None:
    """The compiler that it started is stopped too."""
    toolkit(tmp_path)
    root = project(tmp_path, unit="// hangs")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(root)), selection))
    records = list(records_of(plan, store, RunOptions(timeout=1, jobs=2)))
    assert {record.code for record in records} == {"FC901"}
    assert {record.verdict.value for record in records} == {"unknown"}


def test_a_second_scan_compiles_nothing(tmp_path: Path, store: Store) -> None:
    """Units have keys as kernels have."""
    scan_units(tmp_path, store, "")
    selection = Selection(targets=("sm90a",), toolchains=(str(tmp_path / "cuda-13.9.7"),))
    plan = planning.plan_job(Job(Subject(package=str(tmp_path / "project")), selection))
    assert [record.cached for record in records_of(plan, store, RunOptions(jobs=1))] == [True, True]
