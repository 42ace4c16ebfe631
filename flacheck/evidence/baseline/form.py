"""The baseline file: the states of questions and the failures at that time.

It holds counts and failures, without records, dates and paths, and everything in it is sorted: two
machines with the same results write the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins

from flacheck import files
from flacheck.errors import UsageError
from flacheck.evidence.analysis.standing_state import Share
from flacheck.model import canonical
from flacheck.model.launch import FormError, check_plain

SCHEMA = "flacheck.baseline/1"

State = Literal["good", "screened", "bad", "partial", "no-record"]
Natural = Annotated[int, Meta(ge=0)]
# The most cells of a whole file. Counts become as many cells again, and no project has more.
MOST_CELLS = 1_000_000
# Characters of a failure's line, enough to recognise it.
LINE = 200
# The number of cells of each kernel.
CellsOf = dict[str, Annotated[int, Meta(gt=0)]]


class KnownFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failure that counts, by its signature; `line` is its decisive line."""

    signature: str
    code: Annotated[str, Meta(pattern=r"^FC\d{3}$")]
    stage: str | None
    line: str
    kernels: CellsOf


class BaselinePlace(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The state of a question on one toolchain and target.

    `version` is the package's, `keys` the digest of the cells' keys: another capture has another.
    `asked` is None if the number of the question's cells was unknown. Each cell with a record is in
    one count: `compiles`; `made_up_for` by another config of its launch; `skipped`; `untested`;
    `undecided`; or it is one of the `failures`. `without` are kernels of the question without a
    cell here, `unproven` those without a compile. `configurations` and `kernels` are those of all
    launches, asked or not.
    """

    toolchain: str
    target: str
    version: str | None = None
    state: State
    requested_count: Natural | None = field(name="asked")
    answered_count: Natural = field(name="answered")
    keys: str | None = None
    compiles: Natural = 0
    made_up_for: Natural = 0
    skip_counts: CellsOf = field(name="skipped", default_factory=dict)
    untested_counts: CellsOf = field(name="untested", default_factory=dict)
    undecided_counts: CellsOf = field(name="undecided", default_factory=dict)
    failures: tuple[KnownFailure, ...] = ()
    without: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    configurations: Share | None = None
    kernels: Share | None = None

    @property
    def place(self) -> tuple[str, str]:
        return self.toolchain, self.target

    @property
    def failing(self) -> int:
        """The number of failing cells."""
        return sum(sum(failure.kernels.values()) for failure in self.failures)

    def __post_init__(self) -> None:
        cells = self.compiles + self.made_up_for + self.failing
        for kernels in (self.skip_counts, self.untested_counts, self.undecided_counts):
            cells += sum(kernels.values())
        if cells != self.answered_count:
            raise ValueError(f"{self.answered_count} cells are answered, {cells} are listed")
        if self.state != self._computed_state:
            raise ValueError(f"the state is {self.state}, the cells give {self._computed_state}")

    @property
    def _computed_state(self) -> State:
        if self.failures:
            return "bad"
        if self.requested_count is None or self.answered_count < self.requested_count:
            return "partial"
        if not self.compiles:
            return "no-record"
        if self.state == "no-record" and self.undecided_counts:
            # A compile that was stopped on request is undecided, too.
            return "no-record"
        shares = (self.configurations, self.kernels)
        is_whole = all(share is None or share.is_whole for share in shares)
        if self.undecided_counts or self.skip_counts or not is_whole:
            return "screened"
        return "good"


class BaselineQuestion(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One question of the file.

    `about` is a matrix, a launches file or a package (without its version), `selection` its
    narrowing, `kernels` all its kernels; `packages` are those of a matrix, `name==version`.
    """

    about: str
    selection: dict[str, list[str | int]] = {}
    packages: tuple[str, ...] = ()
    kernels: tuple[str, ...]
    places: tuple[BaselinePlace, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """The key under which an update of the file replaces the question."""
        return self.about, canonical(self.selection)


class Baseline(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    dict=True,
    tag_field="schema",
    tag=SCHEMA,
):
    """The states of a project's questions and their known failures, to be committed.

    `flacheck` is the version that wrote the file; `accepted` are the Triton releases that the pins
    allowed then: a gate lets their known failures pass.
    """

    flacheck: str
    accepted_releases: tuple[str, ...] = field(name="accepted", default=())
    questions: tuple[BaselineQuestion, ...] = ()

    @cached_property
    def failures(self) -> Mapping[tuple[str, str, str, str], str]:
        """The line of each known failure, by (toolchain, target, kernel, signature)."""
        lines = {}
        for question in self.questions:
            for place in question.places:
                for failure in place.failures:
                    for kernel in failure.kernels:
                        key = (*place.place, kernel, failure.signature)
                        lines[key] = failure.line
        return lines


def read(path: Path) -> Baseline:
    """Return the baseline in a file.

    Raises UsageError with the fault and its remedy.
    """
    try:
        text = files.read_text(path)
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
        # A failed merge of two branches leaves its markers in the file.
        raise UsageError(
            f"{path}: is not JSON ({error}); after a merge, take one side and write it again"
        ) from None
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"{path}: schema is {schema!r}; this flacheck reads {SCHEMA}")
    try:
        baseline = convert(plain, Baseline)
    except ValidationError as error:
        raise UsageError(
            f"{path}: {error}; the file is written by --write-baseline: write it again"
        ) from None
    cells = 0
    for question in baseline.questions:
        for place in question.places:
            cells += place.answered_count
    if cells > MOST_CELLS:
        raise UsageError(
            f"{path}: {cells:,} answered cells are too many; {MOST_CELLS:,} are the most"
        )
    return baseline


def text_of(baseline: Baseline) -> str:
    """Return the file's text.

    It is indented, one value a line, so that a review shows the changes.
    """
    return json.dumps(to_builtins(baseline), indent=1, ensure_ascii=False) + "\n"
