"""A capture under one release stands for one under another where all that the package asks of Triton
is answered alike: seen without torch, without the package, and in none but whole steps."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flacheck.captures import capture_job
from flacheck.captures.capture_job import CaptureJob
from flacheck.captures.cards import card
from flacheck.engine import programs
from flacheck.guest.capture_reuse import triton_api_trace as asked
from flacheck.guest.capture_reuse.frontend_queries import FrontendQueries
from flacheck.guest.capture_reuse.triton_api_trace import (
    MISSING,
    TritonApiTrace,
    class_kind,
    fingerprint,
    first_difference,
    run_query,
)
from flacheck.guest.workers import values
from flacheck.guest.workers.cut import CutResult
from flacheck.packages.package import Package
from flacheck.toolchains import FAMILIES
from flacheck.toolchains.base import Toolchain
from tests.engine.test_executors import gone
from tests.guest.search.test_drive import KERNELS, OPS, driven, package, pytestmark  # noqa: F401
from tests.paths import ROOT

ASKING = """
import torch, triton
import triton.language as tl
from triton.language.extra import libdevice
from tiny.kernels import rare

@triton.heuristics({"EVEN": lambda given: given["n"] % 2 == 0})
@triton.autotune([triton.Config({"B": b}, num_warps=w) for b in (16, 32) for w in (2, 4)], ["n"])
@triton.jit
def tuned(x, n: "tl.int32", B: tl.constexpr, EVEN: tl.constexpr, left=None):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n), mask=i < n)

BITS: tl.constexpr = 3

@triton.jit
def shift(value):
    return value << BITS

@triton.jit
def shifted(x, steps, n, B: tl.constexpr):
    # Comments and lines are not the same where the kernel is cut out.
    i = tl.arange(
        0, B
    )
    steps = shift(tl.load(steps + i, mask=i < n))
    tl.store(x + i, steps, mask=i < n)

@triton.jit
def bounded(x, least, MOST: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.minimum(tl.maximum(tl.load(x + i), least), MOST))

def between(x: torch.Tensor):
    bounded[(1,)](x, float("-inf"), MOST=float("inf"), B=16)

def newest(x: torch.Tensor):
    if triton.__version__ >= "2":
        rare[(triton.cdiv(x.shape[0], 2),)](x, x, K=16)

def lacking(x: torch.Tensor):
    if not hasattr(triton, "no_such_thing"):
        rare[(1,)](x, x, K=32)

def told_apart(x: torch.Tensor):
    if isinstance(rare, triton.runtime.jit.JITFunction):
        rare[(1,)](x, x, K=64)

def best(x: torch.Tensor):
    tuned[(1,)](x, x.numel(), enable_fp_fusion=True)

def moved(x: torch.Tensor, steps: torch.Tensor):
    shifted[(1,)](x, steps, x.numel(), B=16)
"""
_MODULE = ".capture_reuse.reuse"


def lines(file: Path) -> list[Any]:
    return [each for each in map(json.loads, file.read_text().splitlines()) if "kernel" in each]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture, with what the package asked."""
    folder = package(tmp_path_factory.mktemp("earlier"), kernels=KERNELS, ops=OPS, asking=ASKING)
    driven(folder, asked=str(folder / "asked.json"))
    return folder


def told(first: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((first / "asked.json").read_text())
    return read


def again(first: Path, folder: Path, earlier: dict[str, Any], *before: str) -> str:
    """Whether the first capture holds with this in the place of what was asked, or before that with
    what these files say: what is said where it does not. What is taken over lies in the folder."""
    (folder / "earlier.json").write_text(json.dumps(earlier))
    # Neither torch nor the package is of use.
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise AssertionError('torch was imported')")
    config = {
        "earlier": [
            {"asked": each, "launches": str(first / "l.jsonl"), "report": str(first / "r.json")}
            for each in (*before, str(folder / "earlier.json"))
        ],
        "card": card("h100"),
        "scratch": str(folder),
        **{name: str(folder / name) for name in ("output", "report", "asked")},
    }
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, *programs.guest_arguments(_MODULE, config, folder)],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ended.stderr


def test_a_capture_is_taken_over_where_all_is_the_same(first: Path, tmp_path: Path) -> None:
    """The launches, the report and what was asked; the report says whose they are."""
    before = told(first)
    assert before["bound"] is None
    assert before["answers"]["triton no_such_thing"] == MISSING
    assert "triton __version__" in before["answers"]
    assert "JITFunction" in before["answers"]["kind triton.runtime.jit.JITFunction"]
    assert "triton.runtime.jit JITFunction" not in before["answers"]
    assert before["options"]["enable_fp_fusion"]
    assert before["answers"]["first triton.language.extra.libdevice"] == MISSING
    again(first, tmp_path, before)
    taken = tmp_path / "output"
    assert taken.read_text() == (first / "l.jsonl").read_text()
    assert json.loads((tmp_path / "asked").read_text()) == before
    report = json.loads((tmp_path / "report").read_text())
    header = json.loads((first / "l.jsonl").read_text().splitlines()[0])
    assert report.pop("like") == header["triton"]
    assert report == json.loads((first / "r.json").read_text())


def test_a_decorator_may_take_more_than_it_did(first: Path, tmp_path: Path) -> None:
    """Whatever the package passes, it takes still."""
    earlier = told(first)
    # Both sides of the package's only comparison of it, `>= "2"`.
    earlier["answers"]["triton __version__"] = "'3.1.0'"
    earlier["answers"]["triton jit"] = '["jit", ["fn"], ["repr"], {}]'
    earlier["answers"]["triton autotune"] = '["autotune", ["configs", "key"], [], {}]'
    again(first, tmp_path, earlier)
    assert (tmp_path / "report").exists()


def test_the_first_that_holds_of_several_is_taken_over(first: Path, tmp_path: Path) -> None:
    """What was seen of the others, kernels of other signatures say, is of no account."""
    earlier = told(first)
    for kernel in earlier["kernels"].values():
        kernel["signature"] = "(other)"
    (tmp_path / "other.json").write_text(json.dumps(earlier))
    said = again(first, tmp_path, told(first), str(tmp_path / "other.json"))
    assert "have another result" in said
    assert (tmp_path / "output").read_text() == (first / "l.jsonl").read_text()


def test_what_the_front_end_refused_is_asked_again(first: Path) -> None:
    """With the arguments, and by which statements of which kernels the refusal came."""
    questions = told(first)["questions"]
    refused = [each for each in questions if each["refusal"]]
    assert {each["kernel"] for each in refused} == {"shifted"}
    said, outer, inner = refused[0]["refusal"][:3]
    assert "shl" in said or "float" in said or "invalid operands" in said
    assert outer.startswith("CompilationError") and inner.startswith("CompilationError")
    assert {each["kernel"] for each in questions} > {"tuned", "rare", "bounded"}


def test_infinity_is_asked_about_again(first: Path) -> None:
    """As a number, for an argument and for a constant."""
    questions = told(first)["questions"]
    (given,) = [each["args"] for each in questions if each["kernel"] == "bounded"]
    assert given["least"] == {"float": float("-inf")}
    assert values.arguments({name: given[name] for name in ("least", "MOST")}) == {
        "least": float("-inf"),
        "MOST": float("inf"),
    }


def _answer(changed: dict[str, str]) -> Callable[[dict[str, Any]], None]:
    return lambda earlier: earlier["answers"].update(changed)


def _another_config(earlier: dict[str, Any]) -> None:
    earlier["kernels"]["tiny.asking:tuned"]["layers"][1]["configs"][0]["num_ctas"] = 1


def _gone_option(earlier: dict[str, Any]) -> None:
    earlier["kernels"]["tiny.asking:tuned"]["layers"][1]["configs"][0]["gone"] = 1


def _gone_api(earlier: dict[str, Any]) -> None:
    for digest, text in earlier["sources"].items():
        earlier["sources"][digest] = f"{text}\nit = tl.no_such_thing\n"


def _another_key(earlier: dict[str, Any]) -> None:
    earlier["kernels"]["tiny.asking:tuned"]["layers"][1]["pruning"] = "another"


def _another_parameter(earlier: dict[str, Any]) -> None:
    earlier["kernels"]["tiny.asking:tuned"]["parameters"][2][1] = False


def _taken(earlier: dict[str, Any]) -> None:
    next(each for each in earlier["questions"] if each["refusal"])["refusal"] = None


def _refused(earlier: dict[str, Any]) -> None:
    question = next(each for each in earlier["questions"] if not each["refusal"])
    question["refusal"] = ["it is", "CompilationError"]


def _other_words(earlier: dict[str, Any]) -> None:
    next(each for each in earlier["questions"] if each["refusal"])["refusal"][0] = "other words"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_answer({"triton __version__": "'1.9.0'"}), "triton __version__ differs"),
        (_answer({"triton no_such_thing": "function"}), "triton no_such_thing differs"),
        (_answer({"triton.gone cdiv": "here"}), "triton.gone cdiv differs"),
        (_answer({"import triton.gone": "True"}), "import triton.gone differs"),
        (_answer({"triton Config": ""}), "triton Config differs"),
        (_answer({"kind triton.runtime.jit.JITFunction": "of dtype"}), "JITFunction differs"),
        (
            _answer({"triton autotune": '["autotune", ["configs", "gone"], [], {}]'}),
            "triton autotune differs",
        ),
        (_answer({"triton jit": '["jit", ["it", "fn"], [], {}]'}), "triton jit differs"),
        (
            _answer({"triton Config": '["Config", ["kwargs"], ["num_warps"], {"pre_hook": "1"}]'}),
            "triton Config differs",
        ),
        (_another_config, "decorators of tiny.asking:tuned have another result"),
        (_gone_option, "TypeError: "),
        (_gone_api, "AttributeError: module 'triton.language' has no attribute 'no_such_thing'"),
        (_another_key, "decorators of tiny.asking:tuned have another result"),
        (_another_parameter, "decorators of tiny.asking:tuned have another result"),
        (
            lambda earlier: earlier["options"].update(num_warps=False),
            "num_warps is an option of one",
        ),
        (
            lambda earlier: earlier["options"].update(no_option=True),
            "no_option is an option of one",
        ),
        (_taken, "the front end has another result for shifted"),
        (_refused, "the front end has another result for"),
        (_other_words, "the front end has another result for shifted"),
        (lambda earlier: earlier.update(bound="a call defined kernels"), "a call defined kernels"),
    ],
)
def test_nothing_is_taken_over_where_something_differs(
    first: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    """A version that is read, a name that is there now, kernels that are decorated otherwise, an
    option that came, a refusal that went."""
    earlier = told(first)
    change(earlier)
    assert says in again(first, tmp_path, earlier)
    assert not any((tmp_path / name).exists() for name in ("output", "report", "asked"))


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import warnings\nwarnings.warn('triton 3.1 is too old')", ""),
        (
            "import triton, warnings\nwarnings.warn(f'triton {triton.__version__} is too old')",
            "the package writes of Triton",
        ),
        ("import triton\nfound = triton.runtime.driver.active", ""),
        ("import triton\nit = triton.backends", ""),
        (
            "import torch, triton\n"
            "def made(x: torch.Tensor):\n"
            "    @triton.jit\n"
            "    def inside(y, K: triton.language.constexpr): ...\n"
            "    inside[(1,)](x, K=2)\n",
            "a call defined kernels: tiny.more:made.inside",
        ),
        ("import triton\nit = triton.backends.backends", "cannot be compared"),
        ("import triton\nraise ValueError(triton.__file__)", "a module failed inside Triton"),
    ],
)
def test_some_captures_hold_under_their_own_release_only(
    tmp_path: Path, module: str, why: str
) -> None:
    """Whoever speaks of a release, makes kernels in calls or reads what nobody can compare."""
    folder = package(tmp_path, kernels=KERNELS, ops=OPS, more=module)
    driven(folder, asked=str(folder / "asked.json"), dtypes=["bf16"])
    bound = told(folder)["bound"]
    if why:
        assert why in bound
    else:
        assert bound is None


def test_what_cannot_be_compared_is_never_the_same() -> None:
    """Objects that nobody knows, modules that are gone, and a version that is another."""
    assert fingerprint(object()) == ""
    assert first_difference({"triton a": ""}, {}, {}) == "triton a"
    assert run_query("no.such.module a") == ""
    assert run_query("import triton.no.such.module") == "False"
    import triton

    assert run_query("distribution triton") == run_query("triton __version__").strip("'")
    assert run_query("triton __version__") == repr(triton.__version__)
    same = {"import triton.testing": "True", "triton no_such_thing": MISSING}
    assert first_difference(same, {}, {}) is None


def test_a_class_that_tells_objects_apart_is_known_by_those(tmp_path: Path) -> None:
    """Its code may change; one that decides by itself what its instances are says nothing."""
    import abc

    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    assert class_kind(JITFunction) == "of JITFunction"
    assert class_kind(Autotuner) == "of Autotuner"
    assert class_kind(object).count(",") == 7
    assert class_kind(abc.ABC) == ""


@pytest.mark.parametrize(
    ("line", "is_told_apart"),
    [
        ("isinstance(1, triton.Kind)", True),
        ("isinstance(1, (int, triton.Kind))", True),
        ("issubclass(int, triton.Kind)", True),
        ("isinstance(1, triton.Kind) or triton.Kind", False),
        ("isinstance(triton.Kind, type)", False),
        ("triton.Kind.__name__", False),
        ("getattr(triton, 'Kind')", False),
    ],
)
def test_only_a_class_in_isinstance_tells_objects_apart(
    tmp_path: Path, line: str, is_told_apart: bool
) -> None:
    """Where the same line reads it for something else, or it cannot be seen, it does not."""
    name = "triton_like_kinds"
    sys.modules[name] = module = ModuleType(name)
    (tmp_path / "asking.py").write_text(line + "\n")
    code = compile((tmp_path / "asking.py").read_text(), str(tmp_path / "asking.py"), "exec")
    try:
        module.Kind = asked.TritonApiTrace
        answers = TritonApiTrace()
        answers.watch(name)
        exec(code, {"triton": module, "__name__": "shop.ops"})
    finally:
        del sys.modules[name]
    assert (f"kind {name}.Kind" in answers.results) is is_told_apart
    assert (f"{name} Kind" in answers.results) is not is_told_apart


def test_a_watched_module_is_a_module_still() -> None:
    """It can be copied, as Triton copies what kernels read, and tells what is read of it."""
    name = "triton_like"
    sys.modules[name] = module = ModuleType(name)
    try:
        answers = TritonApiTrace()
        answers.watch(name)
        module.block = 16
        assert copy.deepcopy(module) is module and isinstance(module, ModuleType)
        read = "module.block, hasattr(module, 'gone')"
        exec(read, {"module": module, "__name__": "shop.ops"})
        assert answers.results == {f"{name} block": "16", f"{name} gone": MISSING}
        assert not answers.ambiguous
        module.gone = sys
        exec(read, {"module": module, "__name__": "shop.ops"})
        assert answers.results[f"{name} gone"] == "module sys"
        assert answers.results[f"first {name}.gone"] == MISSING
        assert not answers.ambiguous
        module.block = 32
        exec(read, {"module": module, "__name__": "shop.ops"})
        assert answers.ambiguous == {f"{name} block"}
    finally:
        del sys.modules[name]


def rounded(x: int) -> int:
    return x + twice(x)


def twice(x: int) -> int:
    return 2 * x


def test_the_code_of_a_function_tells_it_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """With that of the functions that it calls; its decorators and name for kernels do not count."""
    before = fingerprint(rounded)
    assert before and before == fingerprint(rounded)
    monkeypatch.setitem(globals(), "twice", lambda x: 3 * x)
    assert fingerprint(rounded) != before


def test_a_version_is_noted_for_the_package_not_for_torchs_own_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every build of torch for CUDA reads Triton's version to register its kernels."""
    monkeypatch.setattr(importlib.metadata, "distribution", importlib.metadata.distribution)
    answers = TritonApiTrace()
    answers.begin()
    try:
        read = "import importlib.metadata; importlib.metadata.version('triton')"
        exec(read, {"__name__": "torch._native.common_utils"})
        assert "distribution triton" not in answers.results
        exec(read, {"__name__": "shop.ops"})
        assert answers.results["distribution triton"] == importlib.metadata.version("triton")
    finally:
        answers.end()


def test_only_questions_of_the_package_are_noted() -> None:
    """What the standard library, torch's compiler and Triton itself ask says nothing; what torch
    asks counts while the package is imported."""
    answers = TritonApiTrace()
    namespace = {"answers": answers, "__name__": "shop.ops"}
    exec("answers.add_read('triton', 'cdiv', 1); answers.add_missing('triton', 'x')", namespace)
    assert answers.results == {"triton cdiv": "1", "triton x": MISSING}
    unused = ("torch._inductor.runtime", "torch._dynamo", "torch._native.common_utils")
    for asker in (*unused, "triton.language", "inspect"):
        namespace["__name__"] = asker
        exec("answers.add_read('triton', 'jit', 1)", namespace)
    assert "triton jit" not in answers.results
    import triton

    # Under the name that a backend's module has in old releases.
    namespace["__name__"] = "driver"
    own = str(Path(triton.__file__).parent / "backends" / "nvidia" / "driver.py")
    exec(compile("answers.add_read('triton', 'jit', 1)", own, "exec"), namespace)
    assert "triton jit" not in answers.results
    namespace["__name__"] = "torch.utils._triton"
    exec("answers.add_read('triton', 'jit', 1)", namespace)
    assert answers.results.pop("triton jit") == "1"
    answers.importing = False
    exec("answers.add_read('triton', 'jit', 1)", namespace)
    assert "triton jit" not in answers.results


class Tiny(Package):
    """The package of these tests."""

    @property
    def modules(self) -> tuple[str, ...]:
        return ("tiny",)


@pytest.fixture
def releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Package, Toolchain, Toolchain]:
    """A package, and two releases that answer alike: the same under two names. The cache is
    empty."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "package").mkdir()
    folder = package(tmp_path / "package", kernels=KERNELS, ops=OPS)
    toolchain = FAMILIES["triton"].provide(FAMILIES["triton"].find_installed())
    tiny = Tiny("tiny", "1.0", str(folder), "d", {})
    return tiny, toolchain, replace(toolchain, identity="triton==0.0.0+another")


Releases = tuple[Package, Toolchain, Toolchain]


def captured(made: Package, toolchain: Toolchain) -> capture_job.CaptureResult:
    return capture_job.capture_package(made, toolchain, card("h100"))


def test_the_next_release_takes_a_capture_over(
    releases: Releases, caplog: pytest.LogCaptureFixture
) -> None:
    """Both captures are whole; a third takes over what was taken over, and names whose it is."""
    tiny, one, other = releases
    before = captured(tiny, one)
    assert "like" not in before.report
    with caplog.at_level("INFO"):
        after = captured(tiny, other)
    assert "answers the package's queries as under" in caplog.text
    assert after.launches.read_text() == before.launches.read_text()
    assert after.report["operators"] == before.report["operators"]
    assert sorted(file.name for file in after.launches.parent.iterdir())[1:] == [
        "earlier.txt",
        "launches.jsonl",
        "report.json",
    ]
    third = captured(tiny, replace(one, identity="triton==0.0.0+third"))
    assert third.report["like"] == after.report["like"]


def test_beside_other_libraries_a_package_is_captured_anew(
    releases: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have looked at them."""
    tiny, one, other = releases
    captured(tiny, one)
    assert capture_job.earlier_captures(Path(), CaptureJob(tiny, other, card("h100"))) == []
    folder = capture_job.capture_folder(CaptureJob(tiny, other, card("h100")))
    assert len(capture_job.earlier_captures(folder, CaptureJob(tiny, other, card("h100")))) == 1
    monkeypatch.setattr(capture_job, "find_beside", lambda: ["another torch"])
    assert capture_job.earlier_captures(folder, CaptureJob(tiny, other, card("h100"))) == []


def test_what_is_installed_beside_is_known_by_name_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed Triton is no matter: it may be the very release that comes next."""
    for name in ("numpy-1.0", "triton-3.6.0", "other-2"):
        (tmp_path / f"{name}.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "gone")])
    capture_job.find_beside.cache_clear()
    try:
        beside = capture_job.find_beside()
    finally:
        capture_job.find_beside.cache_clear()
    assert beside == [sys.version, "numpy-1.0.dist-info", "other-2.dist-info"]


def test_a_comparison_that_does_not_end_costs_no_capture(
    releases: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is captured anew."""
    tiny, one, other = releases
    before = captured(tiny, one)
    # Nobody writes to it, so who reads it waits.
    (file,) = before.launches.parent.glob("asked-*.json")
    file.unlink()
    os.mkfifo(file)
    monkeypatch.setattr(capture_job, "REUSE_PATIENCE", 0.02)
    after = captured(tiny, other)
    assert "like" not in after.report
    assert after.launches.read_text() == before.launches.read_text()


def test_what_a_comparison_left_behind_is_not_kept(
    releases: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was ended while it wrote: the package is captured anew, from an empty file on."""
    tiny, one, other = releases
    before = captured(tiny, one)
    run = programs.run

    def killed(arguments: list[str], *rest: Any, **named: Any) -> programs.ProgramEnd:
        if _MODULE not in arguments:
            return run(arguments, *rest, **named)
        config = json.loads(Path(arguments[-1]).read_text())
        Path(config["output"]).write_text('{"schema": "half')
        Path(config["asked"]).write_text('{"half')
        return programs.ProgramEnd(signal="SIGKILL")

    monkeypatch.setattr(programs, "run", killed)
    after = captured(tiny, other)
    assert "like" not in after.report
    assert after.launches.read_text() == before.launches.read_text()


SCAN = """
import json, sys
from dataclasses import replace
from flacheck.captures.cards import card
from flacheck.captures.capture_job import capture_package
from flacheck.toolchains import FAMILIES
from tests.guest.capture_reuse.test_earlier import Tiny
toolchain = FAMILIES["triton"].provide(FAMILIES["triton"].find_installed())
other = replace(toolchain, identity="triton==0.0.0+another")
capture_package(Tiny("tiny", "1.0", sys.argv[1], "d", {}), other, card("h100"))
"""


def test_a_scan_that_is_killed_while_it_compares_leaves_nothing_half(releases: Releases) -> None:
    """No process, no launches, no report; the next scan begins anew."""
    tiny, one, other = releases
    before = captured(tiny, one)
    (file,) = before.launches.parent.glob("asked-*.json")
    whole = file.read_text()
    file.unlink()
    os.mkfifo(file)
    scan = subprocess.Popen([sys.executable, "-c", SCAN, tiny.path], cwd=ROOT)
    # Opening it for writing waits until the comparison reads.
    with file.open("w"):
        os.kill(scan.pid, signal.SIGKILL)
        scan.wait()
        assert gone(str(file))
    folder = capture_job.capture_folder(CaptureJob(tiny, other, card("h100")))
    assert [each.name for each in folder.iterdir()] == ["earlier.txt"]
    file.unlink()
    file.write_text(whole)
    assert captured(tiny, other).report["like"]


def test_the_release_of_an_earlier_capture_may_be_gone(releases: Releases, tmp_path: Path) -> None:
    """What it made is enough."""
    tiny, one, other = releases
    captured(tiny, replace(one, paths=(str(tmp_path / "removed"), *one.paths)))
    assert captured(tiny, other).report["like"]


class _Kernel:
    """A kernel of one parameter, as far as a check describes it."""

    @staticmethod
    def fn(scale: object) -> None: ...


def test_a_list_is_passed_as_a_list_again() -> None:
    """Triton refuses a list as an argument, but a tuple only where the kernel uses it."""
    kernel = _Kernel()
    queries = FrontendQueries(lambda function, functions: CutResult("fn = 1", None, ()))
    queries.add("module:fn", kernel, {"scale": [1, (2.5,)]}, None)
    (query,) = queries.needed([])
    assert values.arguments(query["args"]) == {"scale": [1, (2.5,)]}
