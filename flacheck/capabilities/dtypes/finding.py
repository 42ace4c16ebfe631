"""Dtype findings: a broken dtype contract, with the line that breaks it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flacheck.capabilities.dtypes.observation import Place
from flacheck.model import Json

PROMOTION, REJECTION, OVERFLOW = "FC701", "FC703", "FC704"


def to_json_list(values: Iterable[Any]) -> list[Json]:
    """Return the JSON of each value."""
    return [each.to_json() for each in values]


@dataclass(frozen=True)
class ReachedKernel:
    """A kernel that a promoted tensor reaches, and the argument that receives it.

    `dtypes` are those of all floating operands, `intended_dtypes` those without promotions.
    `shared` is the cost in shared memory (see `costs`).
    """

    kernel: str
    argument: str
    dtypes: dict[str, str]
    intended_dtypes: dict[str, str]
    launches: tuple[str, ...] = ()
    shared: Json | None = None

    def to_json(self) -> Json:
        return {
            "kernel": self.kernel,
            "argument": self.argument,
            "dtypes": self.dtypes,
            "intended": self.intended_dtypes,
            "shared": self.shared,
        }


@dataclass(frozen=True)
class EndingError:
    """The error that ends a run: its place, and the statement that raises it."""

    file: str
    line: int
    source: str
    text: str

    @property
    def is_assertion(self) -> bool:
        """True if Python omits the statement under `-O`."""
        return self.source.startswith("assert")

    def to_json(self) -> Json:
        return {"file": self.file, "line": self.line, "source": self.source, "text": self.text}


@dataclass(frozen=True)
class DtypeFinding:
    """A broken dtype contract.

    `file` and `line` are those of the promotion, the rejected operation or the constant; `place` is
    the same position on this machine. `operand` makes the result wide and `half` is the other
    operand, both as source text; `parameter` is the operand's name in the module. `reached_kernels`
    receive the result; `beyond` are the kernels that would receive it without the assertion that
    ends the run. `fix` is a unified diff; `is_known` is True if a baseline lists the finding.
    """

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
    reached_kernels: tuple[ReachedKernel, ...] = ()
    beyond: tuple[ReachedKernel, ...] = ()
    error_at_end: EndingError | None = None
    message: str = ""
    fix: str | None = None
    is_known: bool = False

    @property
    def identity(self) -> str:
        """A key that stays equal when lines are added above the finding."""
        return "|".join((self.code, self.file, " ".join(self.source.split()), self.operand))

    def to_json(self) -> Json:
        kernel: Any = None
        shared = None
        if self.reached_kernels:
            kernel, shared = self.reached_kernels[0].kernel, self.reached_kernels[0].shared
        error_at_end = None
        if self.error_at_end is not None:
            error_at_end = self.error_at_end.to_json()
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
            "kernels": to_json_list(self.reached_kernels),
            "beyond": to_json_list(self.beyond),
            "trips": error_at_end,
            "message": self.message,
            "fix": self.fix,
            "known": self.is_known,
        }
