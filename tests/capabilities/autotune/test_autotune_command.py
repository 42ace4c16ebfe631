"""Transcripts of `flacheck autotune`: sources, exit codes and emitted files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.autotune import gathering
from flacheck.capabilities.autotune.gathering import of_launches
from flacheck.capabilities.repro.compilers import Compilers, provide_releases
from flacheck.capabilities.repro.reproduction import begin
from flacheck.errors import UsageError
from flacheck.model import Purpose, Verdict
from flacheck.pipeline import resolved_cell as cells
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from tests.cli.test_cli import flacheck
from tests.schemas import validate_json
from tests.subjects.inputs.launches.test_launches import HEAD, HEADER, launch, source_id, write

OURS = "gated_delta_rule.chunk_local_cumsum"
DECLINES = (
    HEAD
    + """

@triton.jit
def picky(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= {limit})
    tl.store(x + tl.arange(0, BLOCK), n + {name})
"""
)


def write_launches(
    path: Path, limit: int = 128, name: str = "0", lengths: tuple[int, ...] = (16,)
) -> Path:
    """A launches file of a program with one kernel of two configurations."""
    text = DECLINES.format(limit=limit, name=name)
    configs = [{"kwargs": {"BLOCK": size}, "num_warps": 1, "num_stages": 2} for size in (64, 128)]
    lines = [
        launch(
            text,
            id=f"{length:016x}",
            kernel="program:picky",
            qualname="picky",
            heuristics={},
            launch={
                "args": {"x": {"dtype": "i32", "align": 16}, "n": {"int": length}},
                "omitted": ["BLOCK"],
                "configs": configs,
                "keys": ["n"],
            },
        )
        for length in lengths
    ]
    return write(path, {**HEADER, "device": "NVIDIA H100 80GB HBM3"}, *lines)


def document(text: str) -> Any:
    """Return JSON after validation against the schema."""
    content = json.loads(text)
    validate_json("autotune", content)
    return content


@pytest.mark.slow
def test_our_own_kernels_run_and_are_stored(tmp_path: Path) -> None:
    """A second run compiles nothing, and trials are not a scan's records."""
    command = ("autotune", OURS, "--target", "sm90", "--format", "json", "-j", "1")
    outcome = flacheck(*command, cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    (result,) = document(outcome.stdout)["results"]
    assert result["kernel"] == OURS
    assert [c["outcome"] for c in result["configs"]] == ["runs"] * 4
    assert all(c["resources"]["registers"] and c["occupancy"] for c in result["configs"])
    again = flacheck(*command, cwd=tmp_path)
    assert json.loads(again.stdout) == json.loads(outcome.stdout)
    assert "4 cached" in again.stderr
    with Store.open(tmp_path / ".flacheck", create=False) as store:
        assert {run.purpose for run in store.runs()} == {Purpose.AUTOTUNE}
        assert list(store.latest()) == []


@pytest.mark.slow
def test_what_is_examined_is_found_by_its_key(tmp_path: Path) -> None:
    """`flacheck repro` starts from a failing configuration's key."""
    write_launches(tmp_path, name="tl.sum(n, 3)")
    command = ("autotune", "l.jsonl", "--fallback-budget", "0")
    outcome = flacheck(*command, "--format", "json", cwd=tmp_path)
    (result,) = document(outcome.stdout)["results"]
    key = result["configs"][0]["key"]
    page = flacheck(*command, cwd=tmp_path).stdout
    # A terminal of 80 columns breaks the line somewhere.
    assert f"flacheck repro {key[:12]}" in " ".join(page.split())
    with Store.open(tmp_path / ".flacheck", create=False) as store:
        resolved_cell = cells.resolve_cell(key[:12], Selection(), store, Purpose.REPRO)
    own = resolved_cell.cell.toolchain
    releases = provide_releases(own, "sm90", [own])
    with Compilers(releases, resolved_cell.packages) as compilers:
        reproduction = begin(resolved_cell.cell, compilers)
    assert resolved_cell.record is not None
    assert reproduction.original.args["BLOCK"] == {"constexpr": 64}
    assert reproduction.record.signature == resolved_cell.record.signature


@pytest.mark.slow
def test_a_launches_file_is_examined_without_its_program(tmp_path: Path) -> None:
    """One configuration is skipped and one runs, selected by glob, file or line."""
    write_launches(tmp_path, limit=64)
    for source in (("picky", "--launches", "l.jsonl"), ("l.jsonl",), ("l.jsonl:2",)):
        outcome = flacheck("autotune", *source, "--format", "json", cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
        (result,) = document(outcome.stdout)["results"]
        assert [(c["outcome"], c["verdict"]) for c in result["configs"]] == [
            ("runs", "compiles"),
            ("skipped", "fails"),
        ]
        assert result["target"] == "sm90"
        assert result["ends"] is None


def test_a_trusted_file_may_hold_any_source(tmp_path: Path) -> None:
    """Without --trust, a launches file with other imports is refused."""
    write_launches(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    text = lines[1]["text"] + "\nimport os\n"
    write(tmp_path, lines[0], {**lines[1], "text": text, "source": source_id(text)})
    file, selection = tmp_path / "l.jsonl", Selection(kernels=("picky",), targets=("sm90",))
    for line in (None, 2):
        with pytest.raises(UsageError, match=r"import of os.*--trust"):
            of_launches(file, selection, line)
        (reread,) = of_launches(file, selection, line, trust=True).launches
        assert reread.cell.kernel.name == "program:picky"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [("", 0, ""), (":2", 0, ""), (":3", 2, "no launch is on that line"), (":9", 2, "no launch")],
)
def test_a_capture_that_was_killed_is_examined_up_to_its_last_whole_line(
    tmp_path: Path, line: str, code: int, words: str
) -> None:
    """A truncated last line holds no launch; the lines before it are read."""
    file = write_launches(tmp_path, lengths=(16, 32))
    text = file.read_text()
    last = text.rstrip("\n").rindex("\n") + 1
    file.write_text(text[: (last + len(text)) // 2])
    command = ("autotune", f"l.jsonl{line}", "--format", "json", "--fallback-budget", "0")
    outcome = flacheck(*command, cwd=tmp_path)
    assert outcome.returncode == code, outcome.stderr
    assert words in outcome.stderr
    assert "Traceback" not in outcome.stderr
    if code == 0:
        (result,) = document(outcome.stdout)["results"]
        assert result["launch"]["args"]["n"] == {"int": 16}


def test_a_line_that_counts_a_launch_names_it(tmp_path: Path) -> None:
    """A line that counts a launch selects that launch."""
    file = write_launches(tmp_path, lengths=(16, 32))
    count = {"of": f"{32:016x}", "count": 3}
    file.write_text(file.read_text() + json.dumps(count) + "\n")
    selection = Selection(targets=("sm90",))
    number = len(file.read_text().splitlines())
    (selected_launch,) = of_launches(file, selection, number).launches
    assert selected_launch.launch.args["n"] == {"int": 32}


def test_a_line_without_an_autotuner_is_refused(tmp_path: Path) -> None:
    """A launch without an autotuner is a usage error."""
    file = write(
        tmp_path,
        HEADER,
        launch(
            HEAD + "\n@triton.jit\ndef k(x):\n    pass\n",
            kernel="p:k",
            qualname="k",
            launch={"args": {"x": {"dtype": "i32", "align": 16}}},
            heuristics={},
        ),
    )
    with pytest.raises(UsageError, match="has no autotuner"):
        of_launches(file, Selection(), 2)


def test_what_ends_a_run_is_a_finding(tmp_path: Path) -> None:
    """A run that ends, skips every configuration or retunes for every value exits with 1."""
    write_launches(tmp_path, name="tl.sum(n, 3)")
    outcome = flacheck("autotune", "l.jsonl", "--fallback-budget", "0", cwd=tmp_path)
    assert outcome.returncode == 1
    assert "the run ends: configuration 1 of 2 fails with FC" in outcome.stdout
    write_launches(tmp_path, limit=32)
    outcome = flacheck("autotune", "l.jsonl", "--fallback-budget", "0", cwd=tmp_path)
    assert outcome.returncode == 1
    assert "every configuration is skipped" in outcome.stdout
    write_launches(tmp_path, lengths=tuple(range(16, 160, 16)))
    outcome = flacheck("autotune", "l.jsonl", "--format", "json", cwd=tmp_path)
    (result,) = document(outcome.stdout)["results"]
    assert outcome.returncode == 1
    assert [key["fault"] for key in result["keys"]] == ["storm"]
    assert result["keys"][0]["file"] is None


BLOCK_FITS_HEAD = (
    HEAD
    + """

@triton.jit
def sized(x, K: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= K)
    tl.store(x + tl.arange(0, BLOCK), K)
"""
)


def write_launches_for_heads(path: Path, *heads: int) -> Path:
    """A launches file of a kernel whose larger block needs a larger head, launched at `heads`."""
    configs = [{"kwargs": {"BLOCK": size}, "num_warps": 1, "num_stages": 2} for size in (64, 128)]
    lines = []
    for head in heads:
        args = {"x": {"dtype": "i32", "align": 16}, "K": {"constexpr": head}}
        launch_fields = {"args": args, "omitted": ["BLOCK"], "configs": configs, "keys": ["K"]}
        identity = {"id": f"{head:016x}", "kernel": "program:sized", "qualname": "sized"}
        lines.append(launch(BLOCK_FITS_HEAD, **identity, heuristics={}, launch=launch_fields))
    return write(path, {**HEADER, "device": "NVIDIA H100 80GB HBM3"}, *lines)


def compiled_blocks(store: Path) -> set[tuple[int, int]]:
    """The head and block sizes of which a store has a compile within the GPU's limits."""
    outcome = set()
    with Store.open(store, create=False) as database:
        for run in database.runs():
            for record in database.records(run.id):
                assert record.launch is not None
                used, limit = (record.resources[name] for name in ("shared", "shared_limit"))
                if record.verdict is Verdict.COMPILES and used <= limit:
                    head = record.launch.args["K"]["constexpr"]
                    outcome.add((head, record.launch.configs[0]["kwargs"]["BLOCK"]))
    return outcome


def test_a_configuration_is_emitted_for_each_key_that_was_examined(tmp_path: Path) -> None:
    """Every emitted configuration compiled; a key without one is named and left out."""
    write_launches_for_heads(tmp_path, 64, 128, 32)
    command = ("autotune", "l.jsonl", "--emit", "fla", "-o", "out", "--fallback-budget", "0")
    outcome = flacheck(*command, cwd=tmp_path)
    document = json.loads((tmp_path / "out" / "sized.json").read_text())
    assert "default_config" not in document
    entries = document["autotune_entries"].values()
    configs_by_head = {(e["autotune_key"][0], e["config"]["kwargs"]["BLOCK"]) for e in entries}
    assert {head for head, _ in configs_by_head} == {64, 128}
    assert configs_by_head <= compiled_blocks(tmp_path / ".flacheck")
    assert "sized: 2 keys: K=64 i32; K=128 i32" in outcome.stderr
    assert "sized: left out K=32 i32: no configuration runs: FC" in outcome.stderr
    assert "every configuration is skipped" in outcome.stderr
    assert f"FLA_CONFIG_DIR={tmp_path / 'out'} FLA_CACHE_MODE=strict" in outcome.stdout
    assert outcome.returncode == 1


def test_without_a_key_that_runs_there_is_nothing_to_emit(tmp_path: Path) -> None:
    """The exit code is 2, and no folder is made."""
    write_launches_for_heads(tmp_path, 32)
    command = ("autotune", "l.jsonl", "--emit", "fla", "-o", "out", "--fallback-budget", "0")
    outcome = flacheck(*command, cwd=tmp_path)
    assert outcome.returncode == 2
    assert "nothing to emit" in outcome.stderr
    assert not (tmp_path / "out").exists()


def test_python_is_emitted_with_what_is_left_out_and_the_reason_for_the_code(
    tmp_path: Path,
) -> None:
    """The Python text and stderr both name the configurations left out."""
    write_launches(tmp_path, limit=64)
    outcome = flacheck("autotune", "l.jsonl", "--emit", "python", cwd=tmp_path)
    assert outcome.returncode == 0
    assert "    triton.Config({'BLOCK': 64}, num_warps=1, num_stages=2)," in outcome.stdout
    left_out = "triton.Config({'BLOCK': 128}, num_warps=1, num_stages=2): FC"
    assert f"# Left out: {left_out}" in outcome.stdout
    assert f"program:picky: left out {left_out}" in outcome.stderr
    write_launches(tmp_path, name="tl.sum(n, 3)")
    command = ("autotune", "l.jsonl", "--emit", "python", "--fallback-budget", "0")
    outcome = flacheck(*command, cwd=tmp_path)
    assert outcome.returncode == 1
    assert "on sm90: the run ends: configuration 1 of 2 fails with FC" in outcome.stderr


def test_launches_of_one_binary_are_examined_once_for_all_their_keys(tmp_path: Path) -> None:
    """A length that the compiler ignores adds a key, but not a compile."""
    file = write_launches(tmp_path, lengths=(16, 32, 17))
    both, odd = of_launches(file, Selection(targets=("sm90",)), every_key=True).launches
    assert [call["n"]["int"] for call in both.equivalent_calls] == [16, 32]
    assert [call["n"]["int"] for call in odd.equivalent_calls] == [17]


def test_a_made_up_launch_is_examined_only_where_there_is_no_other(tmp_path: Path) -> None:
    """An invented launch is examined only if the kernel has no recorded launch."""
    file = write_launches(tmp_path, lengths=(16, 17))
    header, first, second = (json.loads(line) for line in file.read_text().splitlines())
    write(tmp_path, header, {**first, "made_up": True}, second)
    (real,) = of_launches(file, Selection(targets=("sm90",)), every_key=True).launches
    assert real.launch.args["n"] == {"int": 17}
    write(tmp_path, header, {**first, "made_up": True})
    (only,) = of_launches(file, Selection(targets=("sm90",)), every_key=True).launches
    assert only.launch.args["n"] == {"int": 16}


def test_every_key_of_declared_shapes_is_examined() -> None:
    """With every_key, each declared shape of one dtype is examined."""
    selection = Selection(kernels=("retention.chunk_fwd_o",), targets=("sm90",))
    (one,) = gathering.of_matrix(None, selection).launches
    every = gathering.of_matrix(None, selection, every_key=True).launches
    assert len(every) > 1
    heads = {each.launch.args["K"]["constexpr"] for each in every}
    assert {64, 128, 256} <= heads
    assert {each.cell.dtype for each in every} == {one.cell.dtype} == {"bf16"}
    both = replace(selection, dtypes=("bf16", "fp16"))
    assert len(gathering.of_matrix(None, both, every_key=True).launches) == 2 * len(every)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("nothing_of_this_name",), 2, "no kernel matches"),
        (
            ("x", "--package", "a==1", "--matrix", "quick"),
            2,
            "--package and --matrix were given: name one of them",
        ),
        (("missing.jsonl",), 2, "cannot be read"),
        (("l.jsonl:1",), 2, "no launch is on that line"),
        (("l.jsonl:99",), 2, "no launch is on that line"),
        ((OURS, "--format", "github"), 2, "allowed are table, json, markdown"),
        ((OURS, "--emit", "yaml"), 2, "expected fla or python"),
        ((OURS, "--dtype", "bf61"), 2, "unknown dtype"),
        ((OURS, "--target", "sm1"), 2, "unknown target"),
        ((OURS, "--dtype", "i8"), 4, ""),
    ],
)
def test_what_cannot_be_examined_is_said(
    tmp_path: Path, command: tuple[str, ...], code: int, words: str
) -> None:
    """A wrong subject or option gives its exit code without a traceback."""
    write_launches(tmp_path)
    outcome = flacheck("autotune", *command, cwd=tmp_path)
    assert (outcome.returncode, "Traceback" in outcome.stderr) == (code, False), outcome.stderr
    assert words in outcome.stderr


def test_threads_that_no_block_has_are_said_before_compiling(tmp_path: Path) -> None:
    """A configuration with too many threads is reported before compiling."""
    file = write_launches(tmp_path)
    file.write_text(file.read_text().replace('"num_warps": 1,', '"num_warps": 64,'))
    outcome = flacheck("autotune", "l.jsonl", "--fallback-budget", "0", cwd=tmp_path)
    first = outcome.stderr.splitlines()[0]
    assert "before compiling: program:picky on sm90: num_warps=64 is 2048 threads" in first
    assert "runs" not in outcome.stdout.splitlines()[0]


def test_bench_runs_no_package_that_a_projects_settings_name(tmp_path: Path) -> None:
    """A package from the settings is refused with exit code 2 before it is installed."""
    (tmp_path / "pyproject.toml").write_text('[tool.flacheck]\npackage = "."\n')
    outcome = flacheck("autotune", "k", "--bench", cwd=tmp_path)
    assert (outcome.returncode, "name it with --package" in outcome.stderr) == (2, True), (
        outcome.stderr
    )


def test_without_a_card_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--bench without a GPU exits with 2 before compiling."""
    # The driver finds none of the GPUs of a machine that has some.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    outcome = flacheck("autotune", OURS, "--bench", cwd=tmp_path)
    assert outcome.returncode == 2
    assert "--bench needs an NVIDIA GPU" in outcome.stderr
