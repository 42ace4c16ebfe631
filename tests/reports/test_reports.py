"""Reports: what each format says of the same run."""

from __future__ import annotations

import io
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import flacheck
from flacheck import reports
from flacheck.errors import UsageError
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.slow import mark_slow
from flacheck.evidence.analysis.summary import RunView, summarise
from flacheck.model import Json, Record
from flacheck.pipeline.fallbacks.alternatives import fallbacks
from flacheck.reports import conclusions, scan
from flacheck.reports.document import Display
from flacheck.rules import RULES, explanation
from tests.made_records import (
    DELTA,
    PACKAGE,
    between,
    failure,
    record,
    skipped,
    summarised,
    unknown,
)
from tests.made_reports import RUN
from tests.paths import TESTS

GOLDEN = TESTS / "golden"
RESHAPE = "LinearLayout.cpp:565: reshapeOuts: Assertion `getTotalOutDimSize() == 64' failed."
TORCH = {"3.1.0": ["2.5.0", "2.5.1"], "3.2.0": ["2.6.0"], "3.4.0": ["2.8.0"]}
FORMS = {
    (PACKAGE, DELTA): ("delta", "chunk"),
    (PACKAGE, "fla.ops:recurrent_fwd"): ("delta", "fused_recurrent"),
}


def _cells(releases: Sequence[str] = ("3.1.0", "3.2.0", "3.4.0")) -> list[Record]:
    """A small run with every kind of outcome."""
    out = []
    for release, warps in itertools.product(releases, (2, 4, 8)):
        where: dict[str, Any] = {"toolchain": f"triton=={release}", "options": {"num_warps": warps}}
        out.append(record(kernel="fla.ops:recurrent_fwd", **where))
        out.append(
            failure(line=RESHAPE, **where) if (release, warps) == ("3.2.0", 8) else record(**where)
        )
    line = "out of resource: shared memory, Required: 245760, Hardware limit: 232448"
    out.append(
        failure("FC501", line, tolerated=True, toolchain="triton==3.2.0", options={"num_warps": 16})
    )
    out.append(record(toolchain="triton==3.1.0", target="sm80", seconds=6.0))
    out.append(record(toolchain="triton==3.4.0", target="sm80", seconds=90.0))
    out.append(unknown(toolchain="triton==3.2.0", target="sm80"))
    out.append(
        skipped("Triton 3.1.0 does not support sm120", toolchain="triton==3.1.0", target="sm120")
    )
    return out


def _view(cells: Sequence[Record]) -> RunView:
    summary = summarised(
        cells,
        Context(
            forms=FORMS,
            torch_for=lambda triton: TORCH.get(triton, []),
            specifier=between,
            fallbacks=fallbacks,
        ),
    )
    return RunView(RUN, lambda: mark_slow(cells, summary.slow), summary)


def _text(name: str, view: RunView, page: Display | None = None) -> str:
    return "".join(reports.render(name, scan.report(view), page or Display()))


def schema(name: str) -> Json:
    found: Json = json.loads(
        (Path(flacheck.__file__).parent / "tables" / "schemas" / name).read_text()
    )
    jsonschema.Draft202012Validator.check_schema(found)
    return found


# JSON


def test_json_is_valid_against_its_schema() -> None:
    """The whole run is one flacheck.run/1 document with the contract's fields."""
    document = json.loads(_text("json", _view(_cells())))
    jsonschema.validate(document, schema("run-1.json"))
    assert document["run"] == RUN
    assert len(document["records"]) == len(_cells())
    assert {
        name: document["summary"][name] for name in ("compiles", "fails", "unknown", "skipped")
    } == {
        "compiles": 19,
        "fails": 2,
        "unknown": 1,
        "skipped": 1,
    }
    assert [entry["use"] for entry in document["summary"]["fallbacks"]] == [
        {"num_warps": 4},
        {"form": "fused_recurrent"},
    ]


def test_an_empty_run_is_valid_json_too() -> None:
    """No record, no summary entry, still the same shape."""
    document = json.loads(_text("json", _view([])))
    jsonschema.validate(document, schema("run-1.json"))
    assert document["records"] == []


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("records", 0, "verdict"), "correct"),
        (("records", 0, "code"), "E1"),
        (("records", 0, "message"), "x" * 2_001),
        (("records", 0, "extra"), 1),
        (("summary", "compiles"), -1),
        (("run", "id"), None),
    ],
)
def test_the_schema_refuses_what_the_contract_does_not_say(
    where: Sequence[Any], value: Any
) -> None:
    """A schema that admits everything would test nothing."""
    document = json.loads(_text("json", _view(_cells())))
    inner = document
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema("run-1.json"))


def test_json_lines_hold_the_same_as_json() -> None:
    """The run first, then a record a line, the summary last."""
    view = _view(_cells())
    first, *records, last = map(json.loads, _text("jsonl", view).splitlines())
    assert {**first, "records": records, **last} == json.loads(_text("json", view))


def test_a_slow_compile_is_a_finding_of_its_record() -> None:
    """FC921 shows in the record, whose verdict stays `compiles`."""
    records = json.loads(_text("json", _view(_cells())))["records"]
    (slow,) = [found for found in records if any(f["code"] == "FC921" for f in found["findings"])]
    assert (slow["verdict"], slow["toolchain"], slow["code"]) == ("compiles", "triton==3.4.0", None)
    assert slow["findings"][0]["facts"] == {"seconds": 90.0, "median": 6.0}


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_machine_formats_stream(name: str) -> None:
    """The first record is written before the second is asked for; a NaN never is."""
    asked = []

    def records() -> Iterable[Record]:
        for cell in _cells():
            asked.append(cell)
            yield cell

    pieces = reports.render(name, scan.report(replace(_view(_cells()), records=records)), Display())
    next(pieces), next(pieces)
    assert len(asked) == 1
    with pytest.raises(ValueError, match="not JSON compliant"):
        _text(name, _view([record(seconds=float("nan"))]))


def test_explain_is_valid_against_its_schema() -> None:
    """An explanation of a code, and of a log, is a flacheck.explain/1 document."""
    for found in (explanation.of_code("FC302"), explanation.of_log(RESHAPE)):
        document = json.loads(json.dumps(explanation.to_json(found)))
        jsonschema.validate(document, schema("explain-1.json"))
        assert document["findings"]


# The table


def test_the_table_says_everything_at_a_glance() -> None:
    """Counts, the matrix, each failure with cause and remedy, fallbacks, known-good pairs and what
    to type next.
    """
    assert (
        _text("table", _view(_cells()), Display(width=76))
        == (GOLDEN / "report-table.txt").read_text()
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_keeps_to_the_page(width: int) -> None:
    """Fifty kernels with long names on thirteen releases: no line is wider than the page, no
    release missing.
    """
    releases = [f"3.{minor}.{micro}" for minor in range(7) for micro in range(2)]
    cells = [
        (failure if n % 3 == 0 and release > "3.4" else record)(
            kernel=f"fla.ops.x:chunk_rwkv_kernel_{n}_with_a_rather_long_name_bwd_dqkwg",
            toolchain=f"triton=={release}",
        )
        for n in range(50)
        for release in releases
    ]
    text = _text("table", _view(cells), Display(width=width))
    assert max(map(len, text.splitlines())) <= width
    assert all(release in text for release in releases)
    assert "33 more kernels: no failures" in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_colour_and_links_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, or with NO_COLOR, there is none; `COLUMNS` sets the width."""
    view = _view(_cells())
    assert "\x1b" not in _text("table", view)
    assert "\x1b[" in _text("table", view, Display(color=True))
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "71")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    assert Display.of_stdout() == Display(71, color=True, links=True)
    monkeypatch.setenv("TERM", "dumb")
    assert Display.of_stdout() == Display(71, False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert Display.of_stdout() == Display(71, True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert Display.of_stdout() == Display(71, False)


def test_messages_are_never_taken_for_markup() -> None:
    """Brackets in a compiler's message come out as they went in."""
    line = "error: [bold]operand #0[/bold] :smile: must be tensor<64x[1]xf16>"
    assert line in _text("table", _view([failure(line=line)]), Display(width=120))


def test_an_unknown_code_is_shown_without_a_rule() -> None:
    """A record of a newer flacheck may carry a code that this one cannot explain."""
    assert "FC399 · 1 cell\n  strange\n" in _text("table", _view([failure("FC399", "strange")]))


def test_fallbacks_that_are_alike_share_a_row() -> None:
    """The same remedy for several settings is said once; one that only adds to a nearer one is not
    said.
    """
    wide = [failure(options={"num_warps": n, "num_stages": 3}) for n in (8, 16)]
    good = [record(options={"num_warps": 4, "num_stages": s}) for s in (2, 3)]
    text = _text("table", _view([*wide, *good]))
    assert text.count("num_warps=4\n") == 1
    assert "num_warps=4 num_stages=2" not in text


# Markdown and GitHub


def test_markdown_is_fit_for_an_issue() -> None:
    """Tables keep their columns whatever a message holds, and a large run stays below what GitHub
    takes.
    """
    cells = [
        failure(
            line=f"pipe | tick ` and\nmore {n}",
            kernel=f"m:kernel_{n}",
            toolchain=f"triton==3.{n % 13}.0",
        )
        for n in range(500)
    ]
    text = _text("markdown", _view(cells))
    assert len(text) < 65_536
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_markdown_names_what_matters() -> None:
    """Known-good pairs, failures with their lines, fallbacks, and how the run was made."""
    text = _text("markdown", _view(_cells()))
    rule = RULES["FC302"]
    assert text.startswith("## flacheck: seeds\n\n23 cells: ")
    assert "| 3.4.0 | 2.8.0 | sm80, sm90 | good | 7 of 7 | 3 of 3 |" in text
    assert f"- `` {RESHAPE} ``<br>1 × 3.2.0 · sm90 · " in text
    assert (
        f"<summary>cause, remedy</summary>\n\ncause: {rule.cause}\n\nremedy: {rule.remedy}" in text
    )
    assert "<br>num_warps=8 | 3.2.0<br>sm90 | `num_warps=4`<br>`form=fused_recurrent` |" in text
    assert "seeds · 20261120-191224-3f2a1b of 2026-11-20T19:12:24" in text


def test_github_annotations_are_escaped_and_few() -> None:
    """One annotation a signature, at most ten of a kind, with everything special escaped."""
    cells = [failure(line=f"{'x' * n} 50% of: a, b\n{n}", kernel=f"m:k{n}") for n in range(15)]
    lines = _text("github", _view([*cells, *_cells()])).splitlines()
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == 10
    assert (
        f"::error title=FC302 {RULES['FC302'].title}::x 50%25 of: a, b%0A1 × 3.2.0 · sm90 · k"
        in "\n".join(errors)
    )
    assert all(
        line.startswith(("::error title=", "::warning title=", "::notice title=")) for line in lines
    )
    tolerated = [line for line in _text("github", _view(_cells())).splitlines() if "FC501" in line]
    assert [line.partition(" ")[0] for line in tolerated] == ["::notice"]


# The family


def test_an_unknown_format_is_a_usage_error() -> None:
    """The message names what is allowed."""
    every = "github, html, json, jsonl, junit, markdown, sarif, table"
    with pytest.raises(UsageError, match=f"'pdf': allowed are {every}"):
        reports.check("pdf")
    with pytest.raises(UsageError, match="'github': allowed are table, json"):
        reports.check("github", reports.TABLE_OR_JSON)


@pytest.mark.parametrize("name", reports.FORMATS)
def test_every_format_renders_every_kind_of_run(name: str) -> None:
    """Nothing at all, only failures, only unknowns, records without launch or package."""
    bare = failure(
        package=None, launch=None, dtype=None, shape={}, options={}, signature=None, message=""
    )
    for cells in ([], [failure()], [unknown(reason=None)], [skipped()], [bare], _cells()):
        assert _text(name, _view(cells)) or name == "github"


def test_amd_targets_say_that_they_are_experimental() -> None:
    """No verdict of theirs was ever compared with a card."""
    shown = "".join(_text("table", _view([record(target="gfx942")])))
    assert "gfx942 (experimental)" in shown


def test_one_sentence_answers_the_question() -> None:
    """What to pin, where nothing is to be pinned, and what is not known yet."""
    good = summarised([record()], Context(torch_for=lambda _: ["2.6.0"], specifier=between))
    said = "1 of 1 cell compiles with torch==2.6.0 and triton==3.2.0 on sm90."
    assert conclusions.answer(good) == said
    advised = summarised(
        [record()],
        Context(
            torch_for=lambda _: ["2.6.0"], specifier=between, advisories=lambda *asked: ["wrong"]
        ),
    )
    against = "Advisories speak against every one of these releases (see Known good)."
    assert conclusions.answer(advised) == f"{said} {against}"
    failing = summarised([failure()])
    assert conclusions.answer(failing) == "Every tested release has a failure on sm90."
    undecided = "No release is known good on sm90: some cells reached no verdict."
    assert conclusions.answer(summarised([unknown()])) == undecided
    unasked = "This run covers no subject completely, so it has no result for a whole release."
    assert conclusions.answer(summarise([record()], Context())) == unasked


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_an_infinity_that_a_launch_was_called_with_is_a_word(name: str) -> None:
    """Strict readers of JSON know none; the launch itself stays as it was."""
    args = {"eps": {"float": float("inf")}, "fill": {"constexpr": -float("inf")}}
    made = record(launch={"args": args}, shape={})
    text = _text(name, _view([made]))
    documents = {"json": lambda: json.loads(text)["records"][0]}
    found = documents.get(name, lambda: json.loads(text.splitlines()[1]))()
    assert found["launch"]["args"] == {"eps": {"float": "inf"}, "fill": {"constexpr": "-inf"}}
    assert made.launch is not None
    assert made.launch.args == args


def test_a_failure_elsewhere_says_nothing_of_a_release_without_a_verdict() -> None:
    """One release fails and the other timed out: the answer claims nothing of the second."""
    cells = [failure(), unknown(toolchain="triton==3.1.0")]
    said = "No release is known good on sm90: some cells fail, others reached no verdict."
    assert conclusions.answer(summarised(cells)) == said
