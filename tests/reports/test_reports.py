"""Reports of a run in every format."""

from __future__ import annotations

import io
import itertools
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from flacheck import reports
from flacheck.errors import UsageError
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.slow import mark_slow
from flacheck.evidence.analysis.summary import RunView, summarise
from flacheck.model import Record
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
    summary_of,
    unknown,
)
from tests.made_reports import RUN
from tests.paths import TESTS
from tests.schemas import validate_json

GOLDEN = TESTS / "golden"
RESHAPE = "LinearLayout.cpp:565: reshapeOuts: Assertion `getTotalOutDimSize() == 64' failed."
TORCH = {"3.1.0": ["2.5.0", "2.5.1"], "3.2.0": ["2.6.0"], "3.4.0": ["2.8.0"]}
FORMS = {
    (PACKAGE, DELTA): ("delta", "chunk"),
    (PACKAGE, "fla.ops:recurrent_fwd"): ("delta", "fused_recurrent"),
}


def _cells(releases: Sequence[str] = ("3.1.0", "3.2.0", "3.4.0")) -> list[Record]:
    """Return a small run with every kind of outcome."""
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
    summary = summary_of(
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


# JSON


def test_json_is_valid_against_its_schema() -> None:
    """The document has the contract's fields."""
    document = json.loads(_text("json", _view(_cells())))
    validate_json("run", document)
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
    """An empty run follows the schema."""
    document = json.loads(_text("json", _view([])))
    validate_json("run", document)
    assert document["records"] == []


def test_json_lines_hold_the_same_as_json() -> None:
    """JSON lines hold the run, a record a line, and the summary."""
    view = _view(_cells())
    first, *records, last = map(json.loads, _text("jsonl", view).splitlines())
    assert {**first, "records": records, **last} == json.loads(_text("json", view))


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_machine_formats_stream(name: str) -> None:
    """The first record is written before the second is read; NaN is an error."""
    cells = []

    def records() -> Iterable[Record]:
        for cell in _cells():
            cells.append(cell)
            yield cell

    pieces = reports.render(name, scan.report(replace(_view(_cells()), records=records)), Display())
    next(pieces), next(pieces)
    assert len(cells) == 1
    with pytest.raises(ValueError, match="not JSON compliant"):
        _text(name, _view([record(seconds=float("nan"))]))


def test_explain_is_valid_against_its_schema() -> None:
    """Explanations of a code and of a log follow the schema."""
    for findings in (explanation.of_code("FC302"), explanation.of_log(RESHAPE)):
        document = json.loads(json.dumps(explanation.to_json(findings)))
        validate_json("explain", document)
        assert document["findings"]


# The table


def test_the_table_says_everything_at_a_glance() -> None:
    """The table equals the golden file."""
    assert (
        _text("table", _view(_cells()), Display(width=76))
        == (GOLDEN / "report-table.txt").read_text()
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_keeps_to_the_page(width: int) -> None:
    """No line is wider than the page, and no release is missing."""
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
    """NO_COLOR, FORCE_COLOR, TERM and COLUMNS decide colours, links and width."""
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


def test_an_unknown_code_is_shown_without_a_rule() -> None:
    """A code of a newer flacheck is shown without a rule."""
    assert "FC399 · 1 cell\n  strange\n" in _text("table", _view([failure("FC399", "strange")]))


# Markdown and GitHub


def test_markdown_is_fit_for_an_issue() -> None:
    """Columns are kept, and the text is smaller than GitHub's limit."""
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
    """Known-good pairs, failures and fallbacks are listed."""
    text = _text("markdown", _view(_cells()))
    rule = RULES["FC302"]
    assert (
        text.startswith("## flacheck: seeds\n\nYes: seeds on sm80, sm90 compiles under ")
        and "\n23 cells: " in text
    )
    assert "| 3.4.0 | 2.8.0 | sm80, sm90 | good | 7 of 7 | 3 of 3 |" in text
    assert f"- `` {RESHAPE} ``<br>1 × 3.2.0 · sm90 · " in text
    assert (
        f"<summary>cause, remedy</summary>\n\ncause: {rule.cause}\n\nremedy: {rule.remedy}" in text
    )
    assert "<br>num_warps=8 | 3.2.0<br>sm90 | `num_warps=4`<br>`form=fused_recurrent` |" in text
    assert "seeds · 20261120-191224-3f2a1b of 2026-11-20T19:12:24" in text


def test_github_annotations_are_escaped_and_few() -> None:
    """At most ten errors are annotated, each escaped."""
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
    notices = [line for line in _text("github", _view(_cells())).splitlines() if "FC501" in line]
    assert [line.partition(" ")[0] for line in notices] == ["::notice"]


# The family


def test_an_unknown_format_is_a_usage_error() -> None:
    """The message lists the formats."""
    every = "github, html, json, jsonl, junit, markdown, sarif, table"
    with pytest.raises(UsageError, match=f"'pdf': allowed are {every}"):
        reports.check("pdf")
    with pytest.raises(UsageError, match="'github': allowed are table, json"):
        reports.check("github", ("table", "json"))


@pytest.mark.parametrize("name", reports.FORMATS)
def test_every_format_renders_every_kind_of_run(name: str) -> None:
    """Every format renders empty, failing, unknown and bare runs."""
    bare = failure(
        package=None, launch=None, dtype=None, shape={}, options={}, signature=None, message=""
    )
    for cells in ([], [failure()], [unknown(reason=None)], [skipped()], [bare], _cells()):
        assert _text(name, _view(cells)) or name == "github"


def test_amd_targets_say_that_they_are_experimental() -> None:
    """AMD targets are marked as experimental."""
    page = "".join(_text("table", _view([record(target="gfx942")])))
    assert "gfx942 (experimental)" in page


def test_one_sentence_answers_the_question() -> None:
    """The sentence has what speaks against the good releases, or the reason that none is good."""
    good = summary_of([record()], Context(torch_for=lambda _: ["2.6.0"], specifier=between))
    assert conclusions.answer(good) == ""
    with_advisory = summary_of(
        [record()],
        Context(
            torch_for=lambda _: ["2.6.0"], specifier=between, advisories=lambda *asked: ["wrong"]
        ),
    )
    against = "Advisories speak against every known good release (see Known good)."
    assert conclusions.answer(with_advisory) == against
    failing = summary_of([failure()])
    assert conclusions.answer(failing) == "Every tested release has a failure on sm90."
    no_verdict = "No release is known good on sm90: some cells reached no verdict."
    assert conclusions.answer(summary_of([unknown()])) == no_verdict
    partial = "This run covers no subject completely, so it has no result for a whole release."
    assert conclusions.answer(summarise([record()], Context())) == partial


@pytest.mark.parametrize("name", ["json", "jsonl"])
def test_an_infinity_that_a_launch_was_called_with_is_a_word(name: str) -> None:
    """Infinity is written as a word, and the launch is unchanged."""
    args = {"eps": {"float": float("inf")}, "fill": {"constexpr": -float("inf")}}
    infinite = record(launch={"args": args}, shape={})
    text = _text(name, _view([infinite]))
    documents = {"json": lambda: json.loads(text)["records"][0]}
    content = documents.get(name, lambda: json.loads(text.splitlines()[1]))()
    assert content["launch"]["args"] == {"eps": {"float": "inf"}, "fill": {"constexpr": "-inf"}}
    assert infinite.launch is not None
    assert infinite.launch.args == args


def test_a_failure_elsewhere_says_nothing_of_a_release_without_a_verdict() -> None:
    """A release without a verdict is not called failing."""
    cells = [failure(), unknown(toolchain="triton==3.1.0")]
    sentence = "No release is known good on sm90: some cells fail, others reached no verdict."
    assert conclusions.answer(summary_of(cells)) == sentence
