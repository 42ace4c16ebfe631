"""Pins: admitted and exact versions, and pins of other builds."""

from __future__ import annotations

import pytest

from flacheck.capabilities.gate.compilers import TRITON
from flacheck.capabilities.gate.pins import (
    Installation,
    Pin,
    compiler_pins,
    parse_pin_options,
    pinned_compiler,
)
from flacheck.errors import UsageError


def pin(requirement: str) -> Pin:
    name = requirement[: 5 if requirement.startswith("torch") else 6]
    return Pin("r.txt", 3, name, requirement.removeprefix(name))


@pytest.mark.parametrize(
    ("requirement", "version", "is_admitted"),
    [
        ("triton", "3.4.0", True),
        ("triton>=3.4,<3.9", "3.8.0", True),
        ("triton>=3.4,<3.9", "3.9.0", False),
        ("triton==3.2.0 || >=3.5,<3.6", "3.5.1", True),
        ("triton==3.2.0 || >=3.5,<3.6", "3.3.0", False),
        ("triton==3.5.0rc1", "3.5.0rc1", True),
        ("torch==2.7.1+cu126", "2.7.1", True),
        ("triton==3.4.0+git1", "3.4.0", False),
    ],
)
def test_a_pin_admits_what_an_installer_may_choose(
    requirement: str, version: str, is_admitted: bool
) -> None:
    """A build of torch counts as its release; a range admits no local build of Triton."""
    assert pin(requirement).admits(version) is is_admitted


def test_a_pin_names_exact_versions() -> None:
    """Exact versions are those of all alternatives without a wildcard."""
    assert pin("triton==3.2.0 || ===3.3.1 || ==3.4.*").exact == ("3.2.0", "3.3.1")


@pytest.mark.parametrize(
    ("requirements", "count"),
    [
        (["torch==2.7.1"], 1),
        (["torch==2.7.1+cu126", "torch>=2.6"], 2),
        (["torch==2.7.1+cpu"], 0),
        (["torch==2.7.1+cpu || ==2.7.1+cu126"], 1),
        (["torch==2.7.1+cpu || ==2.7.1+rocm6.3"], 0),
        (["torch==2.8.0a0+5228986c39.nv25.06"], 1),
        (["torch==2.7.1+rocm6.3", "torch>=2.6"], 0),
        (["triton==3.4.0"], 0),
    ],
)
def test_only_a_torch_for_cuda_says_something_of_triton(
    requirements: list[str], count: int
) -> None:
    """A pin of a CPU or ROCm build removes all pins of torch."""
    installation = Installation("r.txt", tuple(map(pin, requirements)))
    assert len(installation.torch_with_triton) == count


def test_what_is_no_specifier_is_an_error_with_its_place() -> None:
    """The message has the place and shortens a long number."""
    with pytest.raises(UsageError, match=r"^r\.txt:3: ==9{58} is not a version specifier"):
        pin(f"triton=={'9' * 5000}")


def test_options_are_pins_of_their_own() -> None:
    """Values of an option are alternatives, and torch X.Y is X.Y.*."""
    torch, triton = parse_pin_options({"torch": ["2.9,2.10.0"], "triton": [">=3.4,<3.6", "3.7.0"]})
    assert (torch.where, torch.requirement) == ("--torch", "torch==2.9.* || ==2.10.0")
    assert [torch.admits(each) for each in ("2.9.1", "2.10.0", "2.10.1")] == [True, True, False]
    assert (triton.where, triton.requirement) == ("--triton", "triton>=3.4,<3.6 || ==3.7.0")
    assert parse_pin_options({"torch": [], "triton": []}) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"triton": ["installed"]}, "--triton installed: expected a version"),
        ({"triton": ["2.12"]}, "did you mean --torch 2.12"),
        ({"torch": ["newest"]}, "--torch newest: expected a version"),
    ],
)
def test_an_option_that_names_no_release_is_refused(
    options: dict[str, list[str]], message: str
) -> None:
    """The message has the allowed form."""
    with pytest.raises(UsageError, match=message):
        parse_pin_options(options)


def test_a_toolchain_option_names_a_compiler_and_pins_it() -> None:
    """A minor version stands for its patch releases; several values are alternatives."""
    assert compiler_pins([]) == (None, ())
    compiler, pins = compiler_pins(["nvcc"])
    assert compiler is not None
    assert (compiler.family, pins) == ("nvcc", ())
    compiler, (pin,) = compiler_pins(["NVCC==13.0", "nvcc>=13.2,<13.3"])
    assert compiler is not None
    assert (compiler.family, pin.name) == ("nvcc", compiler.distribution)
    assert (pin.where, pin.specifier) == ("--toolchain", "==13.0.* || >=13.2,<13.3")
    assert pin.obstacle == "it is not in a file"
    assert [pin.admits(each) for each in ("13.0.88", "13.1.80", "13.2.1")] == [True, False, True]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["nvcc", "triton"], "a gate judges one compiler at a time"),
        (["==13.0"], "expected a compiler, nvcc or nvcc>=13.0,<13.3"),
        (["clang==18"], "clang"),
    ],
)
def test_a_toolchain_option_without_one_compiler_is_refused(
    values: list[str], message: str
) -> None:
    """The message has the allowed form."""
    with pytest.raises(UsageError, match=message):
        compiler_pins(values)


def test_the_files_decide_which_compiler_is_judged() -> None:
    """Triton is judged if it or torch is pinned, or if nothing is."""
    nvcc = Pin("r.txt", 1, "nvidia-cuda-nvcc", "==13.0.*")
    assert pinned_compiler([]) is TRITON
    assert pinned_compiler([Installation("r.txt", (nvcc,))]).family == "nvcc"
    assert pinned_compiler([Installation("r.txt", (nvcc, pin("torch==2.7.1")))]) is TRITON
