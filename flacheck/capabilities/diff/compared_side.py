"""FROM and TO as an answer speaks of them, and what to pin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flacheck.analysis.order import split, toolchain_label
from flacheck.model import Json, Verdict


@dataclass(frozen=True)
class ComparedSide:
    """FROM or TO as an answer speaks of it: what was typed, its compiler (None for several), the
    torch release that was meant and those that pin this Triton, and how its cells ended. `partial`
    says how much of a stored question is answered, where that is not all."""

    text: str
    name: str
    toolchain: str | None
    torch: str | None
    torch_for: tuple[str, ...]
    verdicts: Mapping[Verdict, int]
    missing: int = 0
    partial: str | None = None

    @property
    def triton(self) -> str | None:
        """The version of a Triton, None for another compiler."""
        if self.toolchain is None:
            return None
        name, version = split(self.toolchain)
        return version if name == "triton" else None

    @property
    def release(self) -> str:
        """`torch 2.9.1`, `Triton 3.5.1` or `nvcc 13.0.88`; a stored result by its name."""
        if self.torch:
            return f"torch {self.torch}"
        if self.toolchain:
            return toolchain_label(self.toolchain)
        return self.name

    @property
    def is_answered(self) -> bool:
        """Whether there is a verdict, on the whole of what was asked."""
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
        return bool(self.compiles or self.verdicts.get(Verdict.FAILS))

    def to_json(self) -> Json:
        return {
            "text": self.text,
            "name": self.name,
            "toolchain": self.toolchain,
            "triton": self.triton,
            "torch": self.torch,
            "torch_for": list(self.torch_for),
            "verdicts": {verdict.value: self.verdicts.get(verdict, 0) for verdict in Verdict},
            "partial": self.partial,
        }


@dataclass(frozen=True)
class AdvisedPin:
    """What to require: `side` is from, to, other or none, `why` the reason in a sentence;
    `toolchain` the compiler where it is not Triton."""

    side: str
    torch: str | None
    triton: str | None
    why: str
    toolchain: str | None = None

    def to_json(self) -> Json:
        return dict(vars(self))


def advise_pin(name: str, side: ComparedSide, why: str) -> AdvisedPin:
    """The release of a side, by the newest torch that brings it; `name` is from or to."""
    torch = side.torch_for[-1:]
    if side.torch is not None:
        torch = (side.torch,)
    if side.toolchain is not None and side.triton is None:
        return AdvisedPin(name, None, None, why, side.toolchain)
    triton = None
    # A requirement cannot name a local build: no index has it.
    if side.triton is not None and "+" not in side.triton:
        triton = f"triton=={side.triton}"
    return AdvisedPin(name, exactly("torch", torch), triton, why)


def exactly(name: str, versions: Sequence[str]) -> str | None:
    """`torch==2.9.1` for the only version; None for none."""
    if not versions:
        return None
    return f"{name}=={versions[0]}"
