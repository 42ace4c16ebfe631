"""The baseline file: how questions stood, and which failures were known then.

It holds counts and failures, no records, no dates and no paths, and everything in it is sorted: two
machines that know the same write the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from flacheck import rules
from flacheck.errors import UsageError
from flacheck.model import canonical
from flacheck.model.launch import FormError, check_plain

SCHEMA = "flacheck.baseline/1"

State = Literal["good", "bad", "partial", "no-record"]
Natural = Annotated[int, Meta(ge=0)]
# Cells of a whole file: counts become as many cells again, and no project has more.
MOST_CELLS = 1_000_000
# Characters of a failure's line: enough to recognise it by.
LINE = 200
# How many cells of each kernel.
CellsOf = dict[str, Annotated[int, Meta(gt=0)]]


class KnownFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failure that counts, by its signature; `line` is its decisive line."""

    signature: str
    code: Annotated[str, Meta(pattern=r"^FC\d{3}$")]
    stage: str | None
    line: str
    kernels: CellsOf

    @property
    def signature_today(self) -> str:
        """As this flacheck computes it from the line; of a line that is cut short, the file's."""
        if len(self.line) >= LINE:
            return self.signature
        return rules.computed_again(self.signature, self.line)


class BaselinePlace(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How a question stood on one toolchain and target.

    `version` is the package's, `keys` the digest of the asked cells' keys: another capture has
    another. `asked` is None where nobody knew how many cells the question has. Each answered cell
    is in one count: `compiles`; `made_up_for` by another config of its launch; `skipped`;
    `untested`; `undecided`; or it is one of the `failures`. `without` are kernels of the question
    that were not asked about here.
    """

    toolchain: str
    target: str
    version: str | None = None
    state: State
    asked: Natural | None
    answered: Natural
    keys: str | None = None
    compiles: Natural = 0
    made_up_for: Natural = 0
    skipped: CellsOf = {}
    untested: CellsOf = {}
    undecided: CellsOf = {}
    failures: tuple[KnownFailure, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str]:
        return self.toolchain, self.target

    @property
    def failing(self) -> int:
        """How many cells fail."""
        return sum(sum(failure.kernels.values()) for failure in self.failures)

    def __post_init__(self) -> None:
        counts = (self.skipped, self.untested, self.undecided)
        listed = sum(sum(kernels.values()) for kernels in counts)
        cells = self.compiles + self.made_up_for + self.failing + listed
        if cells != self.answered:
            raise ValueError(f"{self.answered} cells are answered, {cells} are listed")
        if self.state != self._derived:
            raise ValueError(f"the state is {self.state}, the cells say {self._derived}")

    @property
    def _derived(self) -> State:
        if self.failures:
            return "bad"
        if self.asked is None or self.answered < self.asked:
            return "partial"
        if self.undecided or self.skipped or not self.compiles:
            return "no-record"
        return "good"


class BaselineQuestion(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What was asked: `about` is a matrix, a launches file or a package (without its version),
    `selection` what narrowed it, `kernels` all that it asks about; `packages` are those of a
    matrix, `name==version`."""

    about: str
    selection: dict[str, list[str | int]] = {}
    packages: tuple[str, ...] = ()
    kernels: tuple[str, ...]
    places: tuple[BaselinePlace, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """What an update of the file replaces."""
        return self.about, canonical(self.selection)


class Baseline(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True
):
    """A whole file. `flacheck` is the version that wrote it; `accepted` are the Triton releases
    that the pins allowed then: a gate lets their known failures pass."""

    flacheck: str
    accepted: tuple[str, ...] = ()
    questions: tuple[BaselineQuestion, ...] = ()

    @cached_property
    def failures(self) -> Mapping[tuple[str, str, str, str], str]:
        """(toolchain, target, kernel, signature) of each known failure, with its line."""
        return {
            (*place.place, kernel, failure.signature_today): failure.line
            for question in self.questions
            for place in question.places
            for failure in place.failures
            for kernel in failure.kernels
        }


def read(path: Path) -> Baseline:
    """The baseline in a file. Raises UsageError with what is wrong in it, and what to do."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}); write a baseline with "
            f"`flacheck scan --write-baseline {path}`"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not a text file; a baseline is JSON in UTF-8") from None
    try:
        plain = json.loads(text)
        check_plain(plain)
    except FormError as error:
        raise UsageError(f"{path}: {error}; write it again with --write-baseline") from None
    except (ValueError, RecursionError) as error:
        # A merge of two branches leaves its markers in the file.
        raise UsageError(
            f"{path}: is not JSON ({error}); after a merge, take one side and write it again"
        ) from None
    schema = plain.pop("schema", None) if isinstance(plain, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"{path}: schema is {schema!r}; this flacheck reads {SCHEMA}")
    try:
        baseline = convert(plain, Baseline)
    except ValidationError as error:
        raise UsageError(
            f"{path}: {error}; the file is written by --write-baseline: write it again"
        ) from None
    places = [place for question in baseline.questions for place in question.places]
    cells = sum(place.answered for place in places)
    if cells > MOST_CELLS:
        raise UsageError(f"{path}: says {cells:,} cells were answered; {MOST_CELLS:,} are the most")
    return baseline


def text_of(baseline: Baseline) -> str:
    """The file's text: indented, one value a line, so that a review shows what changed."""
    document = {"schema": SCHEMA, **to_builtins(baseline)}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
