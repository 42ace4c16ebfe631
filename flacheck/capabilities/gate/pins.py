"""Pins: the releases of torch, Triton or another compiler that one line of a file allows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from flacheck.capabilities.gate.compilers import COMPILERS, TRITON, GatedCompiler, find_compiler
from flacheck.errors import UsageError
from flacheck.toolchains import by_torch, split_specs, triton_releases

NAMES = ("torch", *(compiler.distribution for compiler in COMPILERS.values()))
_COMPILER = re.compile(r"([A-Za-z][\w.-]*)\s*((?:[<>=!~].*)?)")
# `==13.0`: a version of two numbers, read as every 13.0.*.
_MINOR = re.compile(r"={2,3}\s*(\d+\.\d+)")
# The build of a release as PyTorch's own index writes it: 2.7.1+cu126.
_LOCAL = re.compile(r"\+[A-Za-z0-9._-]+")
# Builds of torch that require no Triton from an index. Others name a CUDA (+cu126) or, as NVIDIA's
# containers, a commit (+5228986c39.nv25.06).
_WITHOUT_TRITON = ("+cpu", "+rocm", "+xpu", "+hip")


@dataclass(frozen=True)
class Pin:
    """A requirement on one distribution, with its place in a file.

    Attributes:
        file: The file as messages name it.
        line: Its line; None if that is not certain.
        name: The distribution.
        specifier: A PEP 440 specifier; ` || ` separates alternatives (Poetry), "" allows every
            release.
        span: The offsets of the specifier in the file, or in the TOML string at `keys`.
        original_text: The text at `span`.
        obstacle: The reason why the specifier cannot be changed in place.
        keys: The path of the TOML string.
    """

    file: str
    line: int | None
    name: str
    specifier: str
    span: tuple[int, int] | None = None
    original_text: str = ""
    obstacle: str | None = None
    keys: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        # An invalid specifier is an error where the pin is read, not where it is first used.
        _ = self.ranges

    @cached_property
    def ranges(self) -> tuple[SpecifierSet, ...]:
        """The alternatives of the specifier.

        Raises:
            UsageError: With file and line, if the specifier is invalid.
        """
        plain = self.specifier
        if self.name == "torch":
            # A torch's requirements depend on its release only. Builds of Triton are kept apart,
            # because no range allows a local build.
            plain = _LOCAL.sub("", plain)
        try:
            alternatives = tuple(map(SpecifierSet, plain.split("||")))
            for alternative in alternatives:
                for clause in alternative:
                    # packaging parses a version when it compares, and fails on a number that is
                    # too long for Python.
                    clause.contains("0")
        except ValueError:
            # Such a number has thousands of digits, so the message shows the start only.
            why = f"{plain[:60]} is not a version specifier (PEP 440)"
            raise UsageError(f"{self.where}: {why}") from None
        return alternatives

    def admits(self, version: str) -> bool:
        """Return True if an installer may choose this version."""
        return any(alternative.contains(version) for alternative in self.ranges)

    @property
    def exact(self) -> tuple[str, ...]:
        """The versions in the pin's own `==` clauses."""
        versions = []
        for alternative in self.ranges:
            for clause in alternative:
                if clause.operator in ("==", "===") and is_version(clause.version):
                    versions.append(clause.version)
        return tuple(versions)

    @property
    def brings_triton(self) -> bool:
        """True unless the pin is of a torch build for the CPU, ROCm or XPU, without Triton."""
        builds = _LOCAL.findall(self.specifier)
        return not builds or any(not build.startswith(_WITHOUT_TRITON) for build in builds)

    @property
    def where(self) -> str:
        """File and line, `requirements.txt:3`."""
        return file_line(self.file, self.line)

    @property
    def requirement(self) -> str:
        """Name and specifier, `triton>=3.4,<3.9`."""
        return self.name + self.specifier


@dataclass(frozen=True)
class PinChange:
    """A change of a pin's specifier to `to` (PEP 440)."""

    pin: Pin
    to: str


# A pin with the extra or group that it belongs to; None for a pin that always holds.
LabelledPin = tuple[str | None, Pin]


@dataclass(frozen=True)
class Installation:
    """The pins of one installation; `name` lists its files, and its extra or group."""

    name: str
    pins: tuple[Pin, ...]

    def about(self, compiler: GatedCompiler) -> "Installation":
        """Return the installation with the pins that limit a compiler's releases."""
        names: tuple[str, ...] = (compiler.distribution,)
        if compiler is TRITON:
            names = ("torch", compiler.distribution)
        return Installation(self.name, tuple(pin for pin in self.pins if pin.name in names))

    def of(self, name: str) -> tuple[Pin, ...]:
        """Return the pins of one distribution."""
        return tuple(pin for pin in self.pins if pin.name == name)

    @property
    def torch_with_triton(self) -> tuple[Pin, ...]:
        """The pins of torch; empty if one of them is of a build that requires no Triton."""
        pins = self.of("torch")
        if all(pin.brings_triton for pin in pins):
            return pins
        return ()


def parse_pin_options(options: Mapping[str, Sequence[str]]) -> tuple[Pin, ...]:
    """Return the pins that `--torch` and `--triton` give, by their values.

    `2.9` of torch is every 2.9.*; several values are alternatives.

    Raises:
        UsageError: If a value is neither a version nor a specifier.
    """
    pins = []
    for name, values in options.items():
        specifiers: dict[str, None] = {}
        for value in values:
            for part in split_specs(value):
                specifiers[_specifier(name, part)] = None
        if specifiers:
            together = " || ".join(specifiers)
            pins.append(_option_pin(f"--{name}", name, together))
    return tuple(pins)


def _option_pin(option: str, name: str, specifier: str) -> Pin:
    """Return a pin of the command line, which `--fix` cannot change."""
    return Pin(option, None, name, specifier, obstacle="it is not in a file")


def pinned_compiler(installations: Sequence[Installation]) -> GatedCompiler:
    """Return the compiler that files pin: Triton if they pin it or torch, else another one."""
    for compiler in COMPILERS.values():
        if any(installation.about(compiler).pins for installation in installations):
            return compiler
    return TRITON


def compiler_pins(specs: Sequence[str]) -> tuple[GatedCompiler | None, tuple[Pin, ...]]:
    """Return the compiler that `--toolchain` names (`nvcc`, `nvcc>=13.0,<13.3`), and its pin.

    Raises:
        UsageError: If several compilers are named, or one that a gate cannot judge.
    """
    specifiers: dict[GatedCompiler, list[str]] = {}
    parts = [part for text in specs for part in split_specs(text)]
    for spec in parts:
        match = _COMPILER.fullmatch(spec.strip())
        if match is None:
            raise UsageError(f"--toolchain {spec}: expected a compiler, nvcc or nvcc>=13.0,<13.3")
        alternatives = specifiers.setdefault(find_compiler(match[1].lower()), [])
        minor = _MINOR.fullmatch(match[2])
        if minor:
            alternatives.append(f"=={minor[1]}.*")
        elif match[2]:
            alternatives.append(match[2].strip())
    if len(specifiers) > 1:
        raise UsageError("--toolchain: a gate judges one compiler at a time")
    for compiler, alternatives in specifiers.items():
        if not alternatives:
            return compiler, ()
        together = " || ".join(alternatives)
        return compiler, (_option_pin("--toolchain", compiler.distribution, together),)
    return None, ()


def _specifier(name: str, text: str) -> str:
    """Return the specifier of one value of `--torch` or `--triton`."""
    if name == by_torch.NAME:
        return by_torch.parse_requirement(text).removeprefix(name)
    text = text.removeprefix(name).strip()
    if is_version(text):
        if Version(text) < triton_releases.OLDEST:
            triton_releases.reject_torch_versions(text, SpecifierSet(f"=={text}.*"))
        return f"=={text}"
    if not re.match(r"[<>=!~]", text):
        raise UsageError(f"--{name} {text}: expected a version (3.5.1) or a specifier (>=3.4,<3.6)")
    return text


def file_line(file: str, line: int | None) -> str:
    """Return `requirements.txt:3`, or the file alone."""
    if line is None:
        return file
    return f"{file}:{line}"


def is_version(text: str) -> bool:
    """Return True for a version, and False for a wildcard such as 3.5.*."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
