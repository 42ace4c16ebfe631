"""`pytest --flacheck` on a small package with a kernel that compiles and one that does not."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from junitparser import JUnitXml

import flacheck
from tests.captured import needs_torch

pytest_plugins = ["pytester"]

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

@triton.jit
def wrong(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.no_such_function(i), mask=i < n)
"""
SUITE = """
import torch
from demo.kernels import double, wrong

def test_double():
    x = torch.ones(64, device="cuda")
    double[(1,)](x, 64, BLOCK=64)
    assert x.shape == (64,)

def test_wrong():
    wrong[(1,)](torch.ones(64, device="cuda"), 64, BLOCK=64)

def test_values():
    x = torch.ones(64, device="cuda")
    double[(1,)](x, 64, BLOCK=64)
    assert False, x.tolist()

def test_without_a_kernel():
    pass
"""
TRITON = metadata.version("triton")
WRONG = f"flacheck::triton=={TRITON} sm90::demo.kernels.wrong"


@pytest.fixture
def demo(pytester: pytest.Pytester) -> Path:
    """A project with a package and its tests, as the current folder."""
    pytester.mkpydir("demo").joinpath("kernels.py").write_text(KERNELS)
    pytester.makepyfile(test_demo=SUITE)
    return pytester.path


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in a process of its own, on one GPU."""
    return pytester.runpytest_subprocess("--flacheck", "--flacheck-target=h100", *arguments)


@needs_torch
def test_each_kernel_is_a_test(pytester: pytest.Pytester, demo: Path) -> None:
    """Counts, exit code and JUnit file contain the failing kernel until a baseline accepts it."""
    ran = run(pytester, "--junit-xml=junit.xml")
    assert (ran.ret, ran.parseoutcomes()) == (1, {"passed": 4, "failed": 1, "xfailed": 1})
    ran.stdout.fnmatch_lines(["*no_such_function*", f"FAILED {WRONG} - *FC102*"])
    outcomes = {}
    for suite in JUnitXml.fromfile(str(demo / "junit.xml")):
        for case in suite:
            outcomes[f"{case.classname}::{case.name}"] = [
                type(each).__name__ for each in case.result
            ]
    assert outcomes == {
        f"flacheck.triton=={TRITON} sm90::demo.kernels.double": [],
        f"flacheck.triton=={TRITON} sm90::demo.kernels.wrong": ["Failure"],
        "test_demo::test_double": [],
        "test_demo::test_wrong": [],
        "test_demo::test_values": ["Skipped"],
        "test_demo::test_without_a_kernel": [],
    }

    flacheck.scan(
        ".flacheck/pytest.jsonl",
        configs="usual",
        trust=True,
        target="h100",
        write_baseline="baseline.json",
    )
    again = run(pytester, "--flacheck-baseline=baseline.json", "-n2")
    assert (again.ret, again.parseoutcomes()) == (0, {"passed": 4, "skipped": 1, "xfailed": 1})


@needs_torch
def test_a_suite_without_launches_fails(pytester: pytest.Pytester) -> None:
    """A suite without a launch fails with the option to use."""
    pytester.makepyfile("def test_plain(): pass")
    ran = run(pytester)
    assert (ran.ret, ran.parseoutcomes()) == (1, {"passed": 1, "failed": 1})
    ran.stdout.fnmatch_lines(["nothing was launched: *--flacheck-device real"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--flacheck-baseline=none.json", "*none.json: cannot be read*"),
        ("--flacheck-target=sm91", "*unknown target 'sm91'*did you mean sm90*"),
        ("--flacheck-device=mi300", "*only NVIDIA cards can be imitated*"),
    ],
)
def test_a_mistake_ends_before_the_tests(
    pytester: pytest.Pytester, option: str, message: str
) -> None:
    """A wrong option ends pytest before the tests."""
    pytester.makepyfile("open('ran', 'w')\ndef test_plain(): pass")
    ran = pytester.runpytest_subprocess("--flacheck", option)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    ran.stderr.fnmatch_lines([message])
    assert not Path("ran").exists()


def test_without_the_option_nothing_is_imported(pytester: pytest.Pytester) -> None:
    """Without --flacheck neither the API nor torch is imported."""
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            assert "flacheck.pytest_plugin" in sys.modules
            loaded = {name for name in sys.modules if name.startswith("flacheck.")}
            plugin = {"flacheck.pytest_plugin", "flacheck.pytest_plugin.recording"}
            assert loaded == {"flacheck.errors", "flacheck.version", *plugin}
            assert not {"torch", "triton"} & set(sys.modules)
        """
    )
    ran = pytester.runpytest_subprocess()
    assert ran.parseoutcomes() == {"passed": 1}
    assert not Path(".flacheck").exists()
