"""The sides of a comparison as reports show them, and the pin to recommend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from flacheck.evidence.analysis.order import split, toolchain_label
from flacheck.model import Verdict
from flacheck.model.wire import JsonStruct


@dataclass(frozen=True)
class ComparedSide:
    """A side of a comparison.

    Attributes:
        text: The text that the user typed.
        name: The name of the side.
        toolchain: Its compiler; None for several.
        torch: The torch release that the user named.
        torch_for: The torch releases that require this Triton.
        verdicts: The number of cells by verdict.
        missing: The number of cells whose release lacks a wheel.
        partial: The share of cells with a record, if some lack one.
        package: The package that this side compiles and the other does not.
    """

    text: str
    name: str
    toolchain: str | None
    torch: str | None
    torch_for: tuple[str, ...]
    verdicts: Mapping[Verdict, int]
    missing: int = 0
    partial: str | None = None
    package: str | None = None

    @property
    def triton(self) -> str | None:
        """The version of Triton; None for another compiler."""
        if self.toolchain is None:
            return None
        name, version = split(self.toolchain)
        return version if name == "triton" else None

    @property
    def release(self) -> str:
        """`torch 2.9.1`, `Triton 3.5.1` or `nvcc 13.0.88`; a package or result by name."""
        if self.package:
            return self.package
        if self.torch:
            return f"torch {self.torch}"
        if self.toolchain:
            return toolchain_label(self.toolchain)
        return self.name

    @property
    def is_answered(self) -> bool:
        """True if every requested cell has a record and one has a verdict."""
        return self.has_verdict and self.partial is None

    @property
    def can_be_pinned(self) -> bool:
        """True if a cell compiles and every requested cell has a record."""
        return self.compiles > 0 and self.partial is None

    @property
    def compiles(self) -> int:
        """The number of cells that compile."""
        return self.verdicts.get(Verdict.COMPILES, 0)

    @property
    def has_verdict(self) -> bool:
        """True if a cell compiles or fails."""
        return bool(self.compiles or self.verdicts.get(Verdict.FAILS))


PinnedSide = Literal["from", "to", "other", "none"]
_Requirement = Annotated[str, Meta(pattern="^(torch|triton)==")]


class AdvisedPin(JsonStruct, frozen=True):
    """The recommended requirement.

    `side` is none if every stored release has a failure or an advisory, `why` the reason in a
    sentence; `toolchain` is the compiler, unless that is Triton; `package` is NAME==VERSION if the
    sides are two releases of a package.
    """

    side: PinnedSide
    torch: _Requirement | None
    triton: _Requirement | None
    why: str
    toolchain: str | None = None
    package: str | None = None


def advise_pin(name: PinnedSide, side: ComparedSide, why: str) -> AdvisedPin:
    """Return the pin of a side, with the newest torch for its Triton."""
    torch = side.torch_for[-1:]
    if side.torch is not None:
        torch = (side.torch,)
    if side.toolchain is not None and side.triton is None:
        return AdvisedPin(name, None, None, why, side.toolchain, side.package)
    triton = None
    # A requirement cannot name a local build, because indexes do not have it.
    if side.triton is not None and "+" not in side.triton:
        triton = f"triton=={side.triton}"
    return AdvisedPin(name, exactly("torch", torch), triton, why, package=side.package)


def exactly(name: str, versions: Sequence[str]) -> str | None:
    """Return `torch==2.9.1` for the first version; None without versions."""
    if not versions:
        return None
    return f"{name}=={versions[0]}"
