"""A pin: what one line of a file admits of torch, Triton or another compiler."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from flacheck.capabilities.gate.compilers import GATED, TRITON, GatedCompiler, find_compiler
from flacheck.errors import UsageError
from flacheck.toolchains import by_torch, split_specs, triton_releases

NAMES = ("torch", *(compiler.distribution for compiler in GATED.values()))
_COMPILER = re.compile(r"([A-Za-z][\w.-]*)\s*((?:[<>=!~].*)?)")
# `==13.0`: two numbers, which people mean as all of 13.0.
_MINOR = re.compile(r"={2,3}\s*(\d+\.\d+)")
# The build of a release, as PyTorch's own index has it: 2.7.1+cu126.
_LOCAL = re.compile(r"\+[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Pin:
    """`specifier` is PEP 440, alternatives (Poetry's `||`) separated by ` || `; "" admits all.

    `span` holds the offsets of the specifier in its file, or in the string that `keys` lead to in a
    TOML file, and `original_text` what stands there; `obstacle` says why it cannot be changed there."""

    file: str
    line: int | None
    name: str
    specifier: str
    span: tuple[int, int] | None = None
    original_text: str = ""
    obstacle: str | None = None
    keys: tuple[str | int, ...] | None = None

    def __post_init__(self) -> None:
        # What is no specifier is an error where the pin is read, not where it is first asked.
        _ = self.ranges

    @cached_property
    def ranges(self) -> tuple[SpecifierSet, ...]:
        """The alternatives; a UsageError with file and line when one is no specifier."""
        plain = self.specifier
        if self.name == "torch":
            # What a torch requires depends on its release alone. Builds of Triton are kept apart:
            # no range admits a local build.
            plain = _LOCAL.sub("", plain)
        try:
            alternatives = tuple(map(SpecifierSet, plain.split("||")))
            for alternative in alternatives:
                for clause in alternative:
                    # packaging reads a version when it compares, and its number can be too long
                    # for Python to read.
                    clause.contains("0")
        except ValueError:
            # The start is enough: such a number has thousands of digits.
            why = f"{plain[:60]} is no version specifier (PEP 440)"
            raise UsageError(f"{self.where}: {why}") from None
        return alternatives

    def admits(self, version: str) -> bool:
        """Whether an installer may choose this version."""
        return any(alternative.contains(version) for alternative in self.ranges)

    @property
    def exact(self) -> tuple[str, ...]:
        """The versions that the pin itself names with `==`."""
        clauses = (clause for alternative in self.ranges for clause in alternative)
        exact = (clause.version for clause in clauses if clause.operator in ("==", "==="))
        return tuple(filter(is_version, exact))

    @property
    def brings_triton(self) -> bool:
        """Whether a torch so pinned requires Triton: a build for the CPU, ROCm or XPU does not."""
        builds = _LOCAL.findall(self.specifier)
        return not builds or any(build.startswith("+cu") for build in builds)

    @property
    def where(self) -> str:
        """`requirements.txt:3`."""
        return file_line(self.file, self.line)

    @property
    def requirement(self) -> str:
        """`triton>=3.4,<3.9`."""
        return self.name + self.specifier


@dataclass(frozen=True)
class PinChange:
    """`pin` should read `to` (a PEP 440 specifier) instead."""

    pin: Pin
    to: str


# A pin with the extra or group that it is part of; None for one that always holds.
LabelledPin = tuple[str | None, Pin]


@dataclass(frozen=True)
class Installation:
    """What one installation is held to; `name` says of which files and of which extra or group."""

    name: str
    pins: tuple[Pin, ...]

    def about(self, compiler: GatedCompiler) -> "Installation":
        """The same with the pins that say which releases of a compiler may be installed."""
        names: tuple[str, ...] = (compiler.distribution,)
        if compiler is TRITON:
            names = ("torch", compiler.distribution)
        return Installation(self.name, tuple(pin for pin in self.pins if pin.name in names))

    def of(self, name: str) -> tuple[Pin, ...]:
        """The pins of one distribution."""
        return tuple(pin for pin in self.pins if pin.name == name)

    @property
    def torch_with_triton(self) -> tuple[Pin, ...]:
        """The pins of torch, none when one is of a build that requires no Triton."""
        pins = self.of("torch")
        if all(pin.brings_triton for pin in pins):
            return pins
        return ()


def parse_pin_options(options: Mapping[str, Sequence[str]]) -> tuple[Pin, ...]:
    """The pins that the values of `--torch` and `--triton` are, by name: `2.9` of torch is every
    2.9.*; several values are alternatives. UsageError for what is no version."""
    pins = []
    for name, values in options.items():
        said = [part for value in values for part in split_specs(value)]
        specifiers = dict.fromkeys(_specifier(name, part) for part in said)
        if specifiers:
            together = " || ".join(specifiers)
            obstacle = "it is no line of a file"
            pins.append(Pin(f"--{name}", None, name, together, obstacle=obstacle))
    return tuple(pins)


def pinned_compiler(installations: Sequence[Installation]) -> GatedCompiler:
    """The compiler that files pin: Triton, which a torch brings along, before another."""
    for compiler in GATED.values():
        if any(each.about(compiler).pins for each in installations):
            return compiler
    return TRITON


def compiler_pins(specs: Sequence[str]) -> tuple[GatedCompiler | None, tuple[Pin, ...]]:
    """The compiler that `--toolchain` names (`nvcc`, `nvcc>=13.0,<13.3`), and the pin that it is.

    Raises UsageError for several compilers, and for one that no file pins.
    """
    chosen: dict[GatedCompiler, list[str]] = {}
    for spec in [part for text in specs for part in split_specs(text)]:
        match = _COMPILER.fullmatch(spec.strip())
        if match is None:
            raise UsageError(f"--toolchain {spec}: expected a compiler, nvcc or nvcc>=13.0,<13.3")
        alternatives = chosen.setdefault(find_compiler(match[1].lower()), [])
        minor = _MINOR.fullmatch(match[2])
        if minor:
            alternatives.append(f"=={minor[1]}.*")
        elif match[2]:
            alternatives.append(match[2].strip())
    if len(chosen) > 1:
        raise UsageError("--toolchain: a gate judges one compiler at a time")
    for compiler, alternatives in chosen.items():
        if not alternatives:
            return compiler, ()
        obstacle = "it is no line of a file"
        together = " || ".join(alternatives)
        pin = Pin("--toolchain", None, compiler.distribution, together, obstacle=obstacle)
        return compiler, (pin,)
    return None, ()


def _specifier(name: str, said: str) -> str:
    if name == by_torch.NAME:
        return by_torch.parse_requirement(said).removeprefix(name)
    said = said.removeprefix(name).strip()
    if is_version(said):
        if Version(said) < triton_releases.OLDEST:
            triton_releases.reject_torch_versions(said, SpecifierSet(f"=={said}.*"))
        return f"=={said}"
    if not re.match(r"[<>=!~]", said):
        raise UsageError(f"--{name} {said}: expected a version (3.5.1) or a specifier (>=3.4,<3.6)")
    return said


def file_line(file: str, line: int | None) -> str:
    """`requirements.txt:3`, or the file alone."""
    if line is None:
        return file
    return f"{file}:{line}"


def is_version(text: str) -> bool:
    """Whether this is one version, no wildcard."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
