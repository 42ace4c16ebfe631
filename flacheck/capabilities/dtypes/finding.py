"""What is found: a broken dtype contract, with the line that breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flacheck.capabilities.dtypes.observed import Place
from flacheck.model import Json

PROMOTION, REFUSED, OVERFLOW = "FC701", "FC703", "FC704"


@dataclass(frozen=True)
class Reached:
    """A kernel that the promoted tensor reaches: under which argument, the dtypes of all its
    floating operands, as they are and as they are without promotions, and what that costs in shared
    memory (see `costs`)."""

    kernel: str
    argument: str
    dtypes: dict[str, str]
    intended: dict[str, str]
    launches: tuple[str, ...] = ()
    shared: Json | None = None

    def to_json(self) -> Json:
        return {
            "kernel": self.kernel,
            "argument": self.argument,
            "dtypes": self.dtypes,
            "intended": self.intended,
            "shared": self.shared,
        }


@dataclass(frozen=True)
class Tripped:
    """The error that ends the run: where, and the statement that raises it."""

    file: str
    line: int
    source: str
    text: str

    @property
    def is_assertion(self) -> bool:
        """Whether Python leaves the statement out when it is told to (`-O`)."""
        return self.source.startswith("assert")

    def to_json(self) -> Json:
        return {"file": self.file, "line": self.line, "source": self.source, "text": self.text}


@dataclass(frozen=True)
class DtypeFinding:
    """`file` and `line` are those of the promotion, the refused operation or the constant, `place`
    is where that is on this machine. `operand` is what made the result wide and `half` what it met,
    as the program writes them; `parameter` is the operand's name in the module. `reached` are the
    kernels that get it; `beyond` those that would, were it not for the assertion that ends the run.
    `fix` is a unified diff; `known` when a baseline has it."""

    code: str
    subject: str
    file: str
    line: int
    source: str
    operand: str
    source_dtype: str
    result_dtype: str
    mode: str
    place: Place
    half: str | None = None
    parameter: str | None = None
    kind: str | None = None
    reached: tuple[Reached, ...] = ()
    beyond: tuple[Reached, ...] = ()
    tripped: Tripped | None = None
    says: str = ""
    fix: str | None = None
    known: bool = False

    @property
    def identity(self) -> str:
        """The same finding after lines were added above it."""
        return "|".join((self.code, self.file, " ".join(self.source.split()), self.operand))

    def to_json(self) -> Json:
        kernel: Any = None
        shared = None
        if self.reached:
            kernel, shared = self.reached[0].kernel, self.reached[0].shared
        tripped = None
        if self.tripped is not None:
            tripped = self.tripped.to_json()
        return {
            "code": self.code,
            "kernel": kernel,
            "file": self.file,
            "line": self.line,
            "source": self.source,
            "operand": self.operand,
            "from": self.source_dtype,
            "to": self.result_dtype,
            "mode": self.mode,
            "shared": shared,
            "subject": self.subject,
            "parameter": self.parameter,
            "kernels": [each.to_json() for each in self.reached],
            "beyond": [each.to_json() for each in self.beyond],
            "trips": tripped,
            "message": self.says,
            "fix": self.fix,
            "known": self.known,
        }
