"""Dtype findings: a broken dtype contract, with the line that breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, field

from flacheck.capabilities.dtypes.observation import Place
from flacheck.model.wire import Count, JsonStruct

PROMOTION, REJECTION, OVERFLOW = "FC701", "FC703", "FC704"


_Dtype = Annotated[str, Meta(pattern="^(fp16|bf16|fp32|fp64)$")]


class SharedCost(JsonStruct, frozen=True):
    """Bytes of shared memory of a kernel on the imitated GPU, and the limit of a block.

    `intended` is with the dtypes without promotions, `actual` with the present ones; null if the
    kernel does not compile under `toolchain`.
    """

    target: str
    limit: int
    intended: int | None
    actual: int | None
    toolchain: str = ""


class ReachedDocument(JsonStruct, frozen=True):
    """A kernel that a promoted tensor reaches, and the argument that receives it.

    `dtypes` and `intended` are those of its floating operands, with and without promotions;
    `shared` is null if no launch of the kernel was recorded.
    """

    kernel: str
    argument: str
    dtypes: dict[str, str]
    intended: dict[str, str]
    shared: SharedCost | None


class FindingDocument(JsonStruct, frozen=True):
    """A broken dtype contract.

    `kernel` is the first kernel that the promoted tensor reaches, null if the run ends before.
    `file` is relative to the folder of its package or to the working directory, `line` that of the
    promotion, of the operation that refuses its operands, or of the constant. `operand` is the
    source text of the operand that makes the result wide, `parameter` its name in the module.
    `beyond` are the kernels that the tensor would reach without the assertion that ends the run,
    which `trips` quotes.
    """

    code: Annotated[str, Meta(pattern="^FC7[0-9]{2}$")]
    kernel: str | None
    file: str
    line: Count
    source: str
    operand: str
    source_dtype: _Dtype = field(name="from")
    result_dtype: _Dtype = field(name="to")
    mode: str
    shared: SharedCost | None
    subject: str
    parameter: str | None
    kernels: tuple[ReachedDocument, ...]
    beyond: tuple[ReachedDocument, ...]
    trips: EndingError | None
    message: str


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
    shared: SharedCost | None = None

    def document(self) -> ReachedDocument:
        """Return the kernel in the form of flacheck.dtypes/1."""
        dtypes = (self.dtypes, self.intended_dtypes)
        return ReachedDocument(self.kernel, self.argument, *dtypes, self.shared)


class EndingError(JsonStruct, frozen=True):
    """The error that ends a run: its place, and the statement that raises it."""

    file: str
    line: Count
    source: str
    text: str

    @property
    def is_assertion(self) -> bool:
        """True if Python omits the statement under `-O`."""
        return self.source.startswith("assert")


@dataclass(frozen=True)
class DtypeFinding:
    """A broken dtype contract.

    `file` and `line` are those of the promotion, the rejected operation or the constant; `place` is
    the same position on this machine. `operand` is the source text of the operand that makes the
    result wide, `parameter` its name in the module. `reached_kernels` receive the result; `beyond`
    are the kernels that would receive it without the assertion that ends the run. `is_cast` is True
    if the program or autocast widened the operand, no promotion.
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
    parameter: str | None = None
    kind: str | None = None
    reached_kernels: tuple[ReachedKernel, ...] = ()
    beyond: tuple[ReachedKernel, ...] = ()
    error_at_end: EndingError | None = None
    message: str = ""
    is_cast: bool = False

    @property
    def identity(self) -> str:
        """A key that stays equal when lines are added above the finding."""
        return "|".join((self.code, self.file, " ".join(self.source.split()), self.operand))

    def document(self) -> FindingDocument:
        """Return the finding in the form of flacheck.dtypes/1."""
        kernel, shared = None, None
        if self.reached_kernels:
            kernel, shared = self.reached_kernels[0].kernel, self.reached_kernels[0].shared
        return FindingDocument.from_value(
            self,
            kernel=kernel,
            shared=shared,
            kernels=tuple(each.document() for each in self.reached_kernels),
            beyond=tuple(each.document() for each in self.beyond),
            trips=self.error_at_end,
        )
