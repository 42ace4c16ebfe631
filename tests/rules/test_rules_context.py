"""A remedy fits the vendor, the compiler and the system of its log."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from packaging.version import Version

import flacheck
from flacheck import toolchains
from flacheck.rules.base import RULES, Rule
from flacheck.rules.context import LogContext, of_log
from flacheck.tables import table
from tests import triton_names
from tests.rule_logs import evidence

CONTEXTS = [
    LogContext(*sides)
    for sides in itertools.product(
        ("nvidia", "amd", "intel"),
        ("triton", "nvcc", "hipcc", "inductor"),
        ("linux", "wsl", "windows"),
    )
    # nvcc compiles for NVIDIA's GPUs alone, hipcc for AMD's.
    if (sides[1] != "nvcc" or sides[0] == "nvidia") and (sides[1] != "hipcc" or sides[0] == "amd")
]
TRITON_RELEASE = re.compile(r"[Tt]riton(?: up to| before| from)?[ <>=]*\d\.\d|\breleases? \d\.\d")
NVIDIA_GPU = re.compile(r"\bsm_?\d{2,3}|\bcompute capability\b")


def texts() -> Iterator[tuple[Rule, LogContext, str]]:
    """Each rule's texts in each context in which the rule can occur."""
    for rule in RULES.values():
        for context in filter(rule.occurs_in, CONTEXTS):
            variant = rule.texts_in(context)
            versions = " ".join((*(variant.bad or ()), *(variant.good or ())))
            yield rule, context, f"{variant.cause} {variant.remedy} {versions}"


def test_a_build_gets_no_release_of_triton() -> None:
    """nvcc and hipcc have releases of their own."""
    wrong = {
        (rule.code, context.tool)
        for rule, context, text in texts()
        if context.tool in ("nvcc", "hipcc") and TRITON_RELEASE.search(text)
    }
    assert sorted(wrong) == []


def test_another_vendor_gets_no_gpu_of_nvidia() -> None:
    """gfx targets and Intel's GPUs have names of their own."""
    wrong = {
        (rule.code, context.vendor)
        for rule, context, text in texts()
        if context.vendor != "nvidia" and NVIDIA_GPU.search(text)
    }
    assert sorted(wrong) == []


def test_a_range_of_releases_has_a_source() -> None:
    """A report or a pull request shows where the range is from, or a log of such a release."""
    logged = {code for code, name in evidence("golden") if re.search(r"-\d\.\d\.\d\.log$", name)}
    unsourced = [code for code, rule in RULES.items() if rule.bad and not rule.links]
    assert set(unsourced) <= logged


@pytest.mark.parametrize(
    ("message", "log", "context"),
    [
        ("ptxas error: x", "", LogContext("nvidia", "triton", "linux")),
        ("a.cu(3): error: x", "nvcc -c a.cu", LogContext("nvidia", "nvcc", "linux")),
        ("x.hip:4:1: error: y", "", LogContext("amd", "hipcc", "linux")),
        ("error: x", "target gfx942\nC:\\a\\b", LogContext("amd", "triton", "windows")),
        (
            "RuntimeError: x",
            "torch/_inductor/x.py on xpu:0",
            LogContext("intel", "inductor", "linux"),
        ),
        ("error: x", "Linux 5.15-microsoft-standard-WSL2", LogContext("", "triton", "wsl")),
        (
            "error: x",
            'File "triton/compiler/compiler.py"\nnvcc --version',
            LogContext("nvidia", "triton", "linux"),
        ),
    ],
)
def test_the_context_comes_from_the_message_then_from_the_log(
    message: str, log: str, context: LogContext
) -> None:
    """Frames of Triton outweigh a build tool that the log names."""
    assert of_log(message, log) == context


def test_an_nvcc_build_for_an_old_gpu_gets_no_release_of_triton() -> None:
    """The same message under Triton names the releases that emulate the feature."""
    message = "error   : Feature '.bf16' requires .target sm_80 or higher\n"
    (build,) = flacheck.explain(f"ptxas /tmp/a.compute_70.ptx, line 2; {message}").findings
    (kernel,) = flacheck.explain(f"ptxas /tmp/a.ptx, line 2; {message}").findings
    assert (build.good, build.log["target"]) == ((), "sm70")
    assert kernel.good == ("triton>=3.4.0",)


def test_the_names_of_the_installed_release_are_in_the_table() -> None:
    """`python -m tests.triton_names` writes the table from every release."""
    choice = toolchains.FAMILIES["triton"].find_installed()
    folders = toolchains.provide(choice).paths
    modules = triton_names.modules_of(folders[0])
    names = triton_names.names_of(folders)
    listed = table("triton_names")
    assert set(listed["everywhere"]) <= modules
    for module, (first, last) in listed["modules"].items():
        has_it = Version(first) <= Version(choice.version) <= Version(last)
        assert (module in modules) == has_it, module
    for path, ranges in listed["names"].items():
        for name, (first, last) in ranges.items():
            has_it = Version(first) <= Version(choice.version) <= Version(last)
            assert (name in names[path]) == has_it, f"{path}.{name}"


@pytest.mark.network
def test_the_table_of_names_is_what_the_releases_have() -> None:
    """The table contains all names, as `python -m tests.triton_names` reads them."""
    assert triton_names.text_of(triton_names.read_releases()) == triton_names.TABLE.read_text()
