"""The report of a dry run: the cells that a scan would compile."""

from collections.abc import Iterable, Iterator, Sequence

from flacheck.analysis.order import count_noun, kernel_name, parameters, settings, short
from flacheck.model import Cell, Json
from flacheck.reports import document
from flacheck.reports.document import Part, Tone, row
from flacheck.reports.numbers import in_words

SCHEMA = "flacheck.plan/1"
_HEADINGS = ("key", "toolchain", "target", "stage", "kernel", "dtype", "shape", "options")


def report(about: Sequence[str], cells: Sequence[Cell]) -> document.Report:
    """Return the cells in the order of compilation; `about` names their subjects."""
    before = {"schema": SCHEMA, "about": list(about)}
    after = {"summary": {"cells": len(cells)}}
    value = document.Streamed(before, "cells", map(_plain, cells), after)
    subject = f"flacheck: {', '.join(about)}"
    result = f"{count_noun(len(cells), 'cell')}; nothing was compiled"
    notice = document.Annotation("notice", subject, result)
    return document.Report(_parts(subject, result, cells), value, [notice])


def lines(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line for each cell, for people, grep and awk."""
    for cell in cells:
        columns = (cell.key[:12], cell.toolchain, cell.target, cell.stage, cell.kernel.name)
        yield "  ".join((*columns, *_parameters(cell))).rstrip() + "\n"


def _parts(subject: str, result: str, cells: Iterable[Cell]) -> Iterator[Part]:
    yield document.Title(subject, result, Tone.PLAIN)
    rows = []
    for cell in cells:
        columns = (cell.key[:12], short(cell.toolchain), cell.target, cell.stage)
        rows.append(row(*columns, kernel_name(cell.kernel.name), *_parameters(cell)))
    yield document.Table(_HEADINGS, tuple(rows))


def _parameters(cell: Cell) -> tuple[str, str, str]:
    """Return the dtype, the shape or macros, and the options of a cell."""
    shape = parameters(cell) or settings(cell.shape)
    return cell.dtype or "-", shape, settings(cell.options)


def _plain(cell: Cell) -> Json:
    plain = {**cell.to_json(), "stage": cell.stage, "until": cell.until}
    for name in ("launch", "options"):
        plain[name] = in_words(plain[name])
    return plain
