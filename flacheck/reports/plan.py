"""The report of a dry run: the cells that a scan would compile."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from flacheck.evidence.analysis.order import count_noun, kernel_name, parameters, settings, short
from flacheck.model import Cell, Json
from flacheck.model.cell import CellDocument
from flacheck.model.wire import JsonStruct, Natural
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, row
from flacheck.reports.numbers import in_words

SCHEMA = "flacheck.plan/1"
_HEADINGS = (
    *("key", "toolchain", "target", "stage", "kernel", "dtype", "shape", "options"),
    "sizes from",
)
# The sources of the sizes of launches, by the keys of their cells.
SizesFrom = Mapping[str, str | None]


class PlannedCell(CellDocument, frozen=True):
    """A cell with the fields of its record in flacheck.run/1.

    `stage` is the step that is tried: the import, a call, the autotuner or a compile; `until` is
    the last stage of the compile (--until), null for all. `sizes_from` is the model, or the part of
    the package, that the sizes of the launch come from; null for a program's own launch.
    """

    stage: Literal["compile", "autotune", "import", "call"]
    until: str | None
    sizes_from: str | None


class PlanSummary(JsonStruct, frozen=True):
    """The number of cells."""

    cells: Natural


class PlanDocument(JsonStruct, frozen=True):
    """The cells that a scan would compile (`flacheck scan --dry-run --format json`), in order.

    `about` names the matrix, the launches file or the packages.
    """

    schema: Literal["flacheck.plan/1"]
    about: Annotated[tuple[str, ...], Meta(min_length=1)]
    cells: tuple[PlannedCell, ...]
    summary: PlanSummary


def report(about: Sequence[str], cells: Sequence[Cell], sizes_from: SizesFrom) -> document.Report:
    """Return the cells in the order of compilation; `about` names their subjects."""
    before = {"schema": SCHEMA, "about": list(about)}
    after = {"summary": PlanSummary(len(cells)).to_json()}
    plain_cells = (_plain(cell, sizes_from[cell.key]) for cell in cells)
    value = document.Streamed(before, "cells", plain_cells, after)
    subject = f"flacheck: {', '.join(about)}"
    result = f"{count_noun(len(cells), 'cell')}; nothing was compiled"
    notice = document.Annotation("notice", subject, result)
    return document.Report(_parts(subject, result, cells, sizes_from), value, [notice])


def lines(cells: Iterable[Cell], sizes_from: SizesFrom) -> Iterator[str]:
    """Yield a line for each cell, for people, grep and awk."""
    for cell in cells:
        columns = (cell.key[:12], cell.toolchain, cell.target, cell.stage, cell.kernel.name)
        source = sizes_from[cell.key] or ""
        yield "  ".join((*columns, *_parameters(cell), source)).rstrip() + "\n"


def _parts(
    subject: str, result: str, cells: Iterable[Cell], sizes_from: SizesFrom
) -> Iterator[Part]:
    yield document.Title(subject, result, Tone.PLAIN)
    rows = []
    for cell in cells:
        columns = (cell.key[:12], short(cell.toolchain), cell.target, cell.stage)
        name = kernel_name(cell.kernel.name)
        rows.append(row(*columns, name, *_parameters(cell), sizes_from[cell.key] or ""))
    yield document.Table(_HEADINGS, tuple(rows))


def _parameters(cell: Cell) -> tuple[str, str, str]:
    """Return the dtype, the shape or macros, and the options of a cell."""
    shape = parameters(cell) or settings(cell.shape)
    return cell.dtype or "-", shape, settings(cell.options)


def _plain(cell: Cell, sizes_from: str | None) -> Json:
    own: Json = {"stage": cell.stage, "until": cell.until, "sizes_from": sizes_from}
    planned = PlannedCell(**cell.fields_of_document(), **own)
    plain = planned.to_json()
    for name in ("launch", "options"):
        plain[name] = in_words(plain[name])
    return plain
