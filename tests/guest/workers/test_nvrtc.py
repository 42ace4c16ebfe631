"""NVRTC of the 12.x toolkits: device code alone, and the messages for units that need more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.errors import ToolchainError, UsageError
from flacheck.guest.workers import nvrtc_worker
from flacheck.guest.workers.nvrtc_worker import NvrtcWorker
from flacheck.model import Record
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.run import records_of
from flacheck.rules.classify import read
from flacheck.store import Store
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.made_toolchains import identities

FIGURES = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'fwd' for 'sm_90a'
ptxas info    : Function properties for fwd
ptxas         .     120 bytes stack frame, 308 bytes spill stores, 212 bytes spill loads
ptxas info    : Used 255 registers, 4096 bytes smem, 416 bytes cmem[0]
"""


@pytest.mark.parametrize(
    ("spec", "versions"),
    [
        ("nvrtc==12.4", ["nvrtc==12.4.127"]),
        ("nvrtc==12.4.99", ["nvrtc==12.4.99"]),
        ("nvrtc>=12.0,<12.3", ["nvrtc==12.0.140", "nvrtc==12.1.105", "nvrtc==12.2.140"]),
    ],
)
def test_a_minor_version_stands_for_its_newest_patch_release(
    spec: str, versions: list[str]
) -> None:
    """A minor version of NVRTC means its newest patch release, as for nvcc."""
    assert identities(spec) == versions


def test_what_there_is_not_is_said_with_what_there_is() -> None:
    """The message lists the releases: the whole compiler for 13.x, and no nvcc for 12.x."""
    with pytest.raises(UsageError, match=r"no release of nvrtc .*12\.9.*nvcc==13\.0"):
        toolchains.resolve(["nvrtc==13.0"])
    with pytest.raises(UsageError, match=r"no release of nvcc .*nvrtc==12\.4"):
        toolchains.resolve(["nvcc==12.4"])
    with pytest.raises(ToolchainError, match="package index only"):
        toolchains.resolve(["nvrtc==installed"])


def test_targets_are_those_that_the_release_lists() -> None:
    """12.8 added Blackwell, 12.9 its families."""
    releases = {
        spec: toolchains.resolve([f"nvrtc=={spec}"]).choices[0] for spec in ("12.4", "12.8", "12.9")
    }
    assert releases["12.4"].skip_reason("sm90a") is None
    assert releases["12.4"].skip_reason("sm100a") == "nvrtc 12.4.127 does not support sm100"
    assert releases["12.8"].skip_reason("sm100a") is None
    assert releases["12.8"].skip_reason("sm100f") == "nvrtc 12.8.93 does not support sm100f"
    assert releases["12.9"].skip_reason("sm100f") is None


def test_its_cells_have_a_standard_and_no_host_compiler() -> None:
    """NVRTC ignores the host compiler that nvcc takes; a C++ standard that it lacks is an error."""
    family = toolchains.family_of("nvrtc==12.4.127")
    assert family.options({}) == {"std": "c++17"}
    assert family.options({"host": "g++", "std": "c++20"}) == {"std": "c++20"}
    with pytest.raises(UsageError, match="std 'c"):
        family.options({"std": "c++23"})
    with pytest.raises(UsageError, match="option 'num_warps'"):
        family.options({"num_warps": 4})


class Answers:
    """A libnvrtc that returns prepared results and stores its calls."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, list[str]]] = []

    def compile(self, text: str, name: str, options: Sequence[str]) -> tuple[int, str]:
        self.asked.append((name, list(options)))
        return self._answers.pop(0)


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one unit; the worker's folder is put back afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "csrc").mkdir()
    file = tmp_path / "csrc" / "fwd.cu"
    file.write_text('extern "C" __global__ void fwd() {}\n')
    return file


def ask(
    unit: Path, library: Answers, until: str | None = None, op: str = "compile", **kernel: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return a worker's result for the unit, and the stages that it passed."""
    root = unit.parent.parent
    config = {
        "library": "none",
        "includes": [str(root / "toolkit")],
        "corpus": str(root),
        "scratch": str(root / "scratch"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nvrtc_worker, "NvrtcLibrary", lambda path: library)
        worker = NvrtcWorker(config)
    stages: list[str] = []
    request = {
        "op": op,
        "until": until,
        "target": "sm90a",
        "kernel": {"unit": str(unit.relative_to(root)), **kernel},
        "options": {"std": "c++17"},
        "launch": {"args": {"HEAD_DIM": {"constexpr": 64}}},
    }
    return dict(worker.run(request, stages.append)), stages


def test_the_front_end_comes_before_the_whole_and_figures_are_the_assemblers(unit: Path) -> None:
    """This also holds for the output of 12.4, which begins the line of a frame in another way."""
    library = Answers((0, ""), (0, FIGURES))
    answer, stages = ask(unit, library)
    assert stages == ["syntax", "ptx"]
    assert answer["stage"] == "cubin"
    assert {name: answer["resources"][name] for name in ("registers", "spills", "stack")} == {
        "registers": 255,
        "spills": 308,
        "stack": 120,
    }
    first, second = (options for _, options in library.asked)
    assert "-fdevice-syntax-only" in first and "--gpu-architecture=compute_90a" in first
    assert "--gpu-architecture=sm_90a" in second and "-DHEAD_DIM=64" in second


def test_a_release_without_a_quick_look_compiles_at_once(unit: Path) -> None:
    """Before 12.4 the option is unknown."""
    unknown = (5, "nvrtc: error: unrecognized option -fdevice-syntax-only found\n")
    answer, _ = ask(unit, Answers(unknown, (0, FIGURES)))
    assert answer["stage"] == "cubin"
    library = Answers(unknown, (0, ""))
    assert ask(unit, library, until="syntax")[0]["stage"] == "syntax"
    assert "--gpu-architecture=compute_90a" in library.asked[-1][1]


def test_flags_of_a_build_that_speak_of_the_host_are_left_out(unit: Path) -> None:
    """Flags for the device's code stay."""
    library = Answers((0, ""), (0, ""))
    flags = ["-O3", "--use_fast_math", "-U__CUDA_NO_HALF_OPERATORS__", "--expt-extended-lambda"]
    ask(unit, library, flags=flags)
    options = library.asked[0][1]
    assert "--use_fast_math" in options and "-U__CUDA_NO_HALF_OPERATORS__" in options
    assert "-O3" not in options and "--expt-extended-lambda" not in options


@pytest.mark.parametrize(
    ("log", "stage"),
    [
        (
            'fwd.cu(1): error: identifier "x" is undefined\n1 error detected in the compilation of',
            0,
        ),
        ("ptxas error   : Entry function 'fwd' uses too much shared data", 2),
        ("nvrtc: error: failed to do something", 1),
    ],
)
def test_a_failure_has_the_stage_of_the_program_that_says_it(
    unit: Path, log: str, stage: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """All stages are one call of the library."""
    answer, _ = ask(unit, Answers((0, ""), (6, f"{log}\n")))
    assert (answer["outcome"], answer["stage"]) == ("raised", ("syntax", "ptx", "cubin")[stage])
    assert log.splitlines()[0] in capfd.readouterr().err


def test_a_header_that_only_a_host_compiler_has_is_named(
    unit: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A missing header of torch is not the unit's fault; one of the project is."""
    missing = 'fwd.cu(1): catastrophic error: cannot open source file "{}"\n'
    ask(unit, Answers((6, missing.format("torch/extension.h"))))
    assert "flacheck: the unit needs the header torch/extension.h" in capfd.readouterr().err
    answer, _ = ask(unit, Answers((6, missing.format("csrc/traits.h"))))
    assert "catastrophic error" in capfd.readouterr().err
    assert answer["stage"] == "syntax" or answer["outcome"] == "raised"


def test_headers_of_the_toolkits_own_library_stand_in_for_the_standard_ones(unit: Path) -> None:
    """`<cstddef>` is that of `cuda/std`, and is searched after the toolkit's folders."""
    root = unit.parent.parent
    library = root / "toolkit" / "cuda" / "std"
    (library / "detail").mkdir(parents=True)
    for name in ("cstddef", "type_traits", "__config"):
        (library / name).write_text("")
    answers = Answers((0, ""), (0, ""))
    ask(unit, answers)
    folders = [option[2:] for option in answers.asked[0][1] if option.startswith("-I")]
    stand_ins = Path(folders[-1])
    assert sorted(file.name for file in stand_ins.iterdir()) == [
        "cstddef",
        "stddef.h",
        "type_traits",
    ]
    assert "#include <cuda/std/cstddef>" in (stand_ins / "stddef.h").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = std::fabs(y);", 'namespace "std" has no member "fabs"'),
        ("x = INFINITY;", 'identifier "INFINITY" is undefined'),
        ("int64_t x = 4;", 'identifier "int64_t" is undefined'),
        (
            "template <> struct hash<mine> {};",
            'class "cuda::std::__4::hash<mine>" cannot be specialized in the current scope',
        ),
        (
            "x = c * 2;",
            'no operator "*" matches these operands\n'
            "            operand types are: cuda::std::__4::complex<float> * int",
        ),
    ],
)
def test_an_error_of_the_standard_library_is_no_failure_of_the_unit(
    unit: Path, line: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The host compiler's library has what the device's lacks, so nvcc may compile the unit."""
    unit.write_text(f"{line}\n")
    log = f"csrc/fwd.cu(1): error: {message}\n  {line}\n\n1 error detected in the compilation of"
    ask(unit, Answers((6, log)))
    text = capfd.readouterr().err
    assert text.startswith("flacheck: the unit needs more of the C++ standard library")
    assert [finding.code for finding in read(text)] == ["FC813"]


def test_a_hostile_unit_reaches_no_compiler(unit: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The unit's sources are searched first, because NVRTC cannot list the files that it reads."""
    unit.write_text('#include "/etc/passwd"\n')
    library = Answers()
    answer, _ = ask(unit, library)
    assert answer == {"outcome": "raised", "stage": "syntax"}
    assert library.asked == []
    assert "in none of its folders" in capfd.readouterr().err


def test_it_shows_no_preprocessed_text(unit: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The message names the compiler that can show it."""
    answer, _ = ask(unit, Answers(), op="preprocess")
    assert answer["outcome"] == "raised"
    assert "scan the unit under a toolkit" in capfd.readouterr().err


def compile_units(store: Store, subject: Subject, **chosen: tuple[str, ...]) -> list[Record]:
    selection = Selection(**{"toolchains": ("nvrtc==12.4.127",), **chosen})  # type: ignore[arg-type]
    plan = planning.plan_job(Job(subject, selection))
    return list(records_of(plan, store, RunOptions(timeout=300)))


@pytest.mark.network
def test_the_real_one_compiles_kernels_and_says_why_it_does_not_compile_the_rest(
    store: Store, tmp_path: Path
) -> None:
    """It tries a kernel alone, a kernel with its launching function, a host file, a standard
    header, a file that the unit may not read, and a failing template.
    """
    root = tmp_path / "project"
    root.mkdir()
    kernel = "template <int N> __global__ void k(float *x) { x[threadIdx.x] = N; }\n"
    units = {
        "alone.cu": f"{kernel}template __global__ void k<1>(float *);\n",
        "broken.cu": f'{kernel}static_assert(sizeof(int) == 8, "wide");\n',
        "host.cu": f"{kernel}void run(float *x) {{ k<1><<<1, 32>>>(x); }}\n",
        "secret.cu": '#include "/etc/passwd"\n',
        "std.cu": f"#include <vector>\n{kernel}",
        "torch.cpp": "int main() {}\n",
    }
    for name, text in units.items():
        (root / name).write_text(text)
    entries = [{"directory": ".", "command": f"nvcc -c {name}"} for name in units]
    (root / "compile_commands.json").write_text(json.dumps(entries))
    records = compile_units(store, Subject(package=str(root)))
    verdicts = {r.kernel: (r.verdict.value, r.code, r.reason) for r in records}
    assert verdicts["alone.cu"] == ("compiles", None, None)
    assert verdicts["broken.cu"][:2] == ("fails", "FC803")
    assert verdicts["host.cu"][:2] == ("unknown", "FC813")
    assert verdicts["secret.cu"][:2] == ("unknown", "FC812")
    assert "root:" not in json.dumps([r.to_json() for r in records])
    assert verdicts["std.cu"][:2] == ("unknown", "FC813") and "vector" in str(verdicts["std.cu"][2])
    assert verdicts["torch.cpp"][:2] == ("unknown", "FC813")


@pytest.mark.network
def test_verdicts_on_the_corpus_are_those_of_nvcc(store: Store) -> None:
    """Our pipeline includes `<type_traits>`: fp8 fails, and the mended variant compiles."""
    file = Path(store.path).parent / "pipeline.yaml"
    file.write_text(
        'version: 1\naxes: {kernel: "pipeline.*", dtype: [bf16, fp8e4nv], target: sm90a,'
        " shape: {HEAD_DIM: 64}}\n"
    )
    verdicts = {}
    for toolchain in ("nvrtc==12.0.140", "nvrtc==12.4.127", "nvcc==13.0.88"):
        records = compile_units(store, Subject(str(file)), toolchains=(toolchain,))
        verdicts[toolchain] = {(r.kernel, r.dtype): (r.verdict.value, r.code) for r in records}
    assert verdicts["nvrtc==12.0.140"] == verdicts["nvcc==13.0.88"]
    assert verdicts["nvrtc==12.4.127"] == verdicts["nvcc==13.0.88"]
    assert verdicts["nvcc==13.0.88"]["pipeline.fwd", "fp8e4nv"] == ("fails", "FC801")


@pytest.mark.network
def test_registers_and_spills_are_recorded_as_nvccs_are(store: Store) -> None:
    """Registers and spills of our own kernel are recorded, for a target of 12.4 and for a newer
    one."""
    file = Path(store.path).parent / "large.yaml"
    file.write_text(
        "version: 1\naxes: {kernel: wkv.fwd, dtype: bf16, target: [sm80, sm100a],"
        " shape: {HEAD_DIM: 256}}\n"
    )
    records = {record.target: record for record in compile_units(store, Subject(str(file)))}
    assert records["sm80"].resources["registers"] == 255
    assert records["sm80"].resources["spills"] > 0
    assert [each["name"] for each in records["sm80"].resources["functions"]] == ["wkv_fwd"]
    assert records["sm100a"].verdict.value == "skipped"
