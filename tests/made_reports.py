"""A small report of each command, made from values by hand, for the tests of reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from flacheck.capabilities.autotune.results import Timing
from flacheck.capabilities.bisect.history import Bisection, Change, Entry, Find, Kind
from flacheck.capabilities.gate.admission import Admission, Conflict
from flacheck.capabilities.gate.judged_pins import (
    JudgedRelease,
    JudgedWaiver,
    ReleaseState,
    WaiverUse,
)
from flacheck.capabilities.gate.pins import Installation, Pin, PinChange
from flacheck.capabilities.gate.result import Gate
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.evidence.analysis.groups import SignatureGroup
from flacheck.evidence.analysis.slow import mark_slow
from flacheck.evidence.analysis.summary import RunView
from flacheck.model import Verdict
from flacheck.reports import (
    autotune,
    bisect,
    diff,
    document,
    dtypes,
    explanation,
    gate,
    repro,
    scan,
)
from flacheck.reports.document import Report
from flacheck.rules.explanation import of_log
from flacheck.tables.settings.waivers import Waiver
from tests import made_dtypes
from tests.capabilities.repro.output.test_repro_files import result as reproduced
from tests.made_diff import every_difference
from tests.made_records import between, failure, record, skipped, summary_of, unknown
from tests.made_specimens import FAILS, chain
from tests.made_tuned import SOURCE, fatal, good, result

RUN = {
    "id": "20261120-191224-3f2a1b",
    "started": "2026-11-20T19:12:24.000000+00:00",
    "flacheck": "0.1.0",
    "python": "3.11.9",
    "platform": "Linux",
    "matrix": "seeds",
}
LINE = "LinearLayout.cpp:565: reshapeOuts: Assertion `a | b <c>' failed."


def of_scan(_: Path) -> Report:
    """A run with every verdict."""
    cells = [
        record(toolchain="triton==3.1.0"),
        failure(line=LINE, toolchain="triton==3.2.0", options={"num_warps": 8}),
        record(toolchain="triton==3.2.0", options={"num_warps": 4}),
        unknown(toolchain="triton==3.2.0", target="sm80"),
        skipped("Triton 3.1.0 does not support sm120", toolchain="triton==3.1.0", target="sm120"),
    ]
    torch = {"3.1.0": ["2.5.0", "2.5.1"]}
    summary = summary_of(
        cells, Context(torch_for=lambda triton: torch.get(triton, []), specifier=between)
    )
    return scan.report(RunView(RUN, lambda: mark_slow(cells, summary.slow), summary))


def of_gate(_: Path) -> Report:
    """Pins that contradict each other, and releases in every state."""
    torch = Pin("pyproject.toml", 3, "torch", ">=2.5,<2.9")
    triton = Pin(
        "pyproject.toml", 5, "triton", "==3.7.0", obstacle="its hashes are of that release"
    )
    files = Installation("pyproject.toml", (torch,))
    group = Installation("pyproject.toml (group gpu)", (torch, triton))
    conflict = Conflict(group.name, group.pins, "torch 2.8.0 requires triton==3.4.0")
    signature = SignatureGroup(
        "FC302:llir:reshapeOuts:0",
        "FC302",
        2,
        ("triton==3.2.0",),
        ("sm90",),
        ("fla.ops:chunk_fwd",),
        0,
        "llir",
        LINE,
        "0" * 64,
    )
    old_waiver = Waiver(reason="issue 9", signature="FC401:ptx:-:0", expires=date(2026, 1, 31))
    gate_result = Gate(
        admissions=(
            Admission(files, (("2.5.0", "3.1.0"), ("2.6.0", "3.2.0"), ("2.7.0", "3.3.0"))),
            Admission(group, conflict=conflict),
        ),
        versions=(
            JudgedRelease("3.1.0", ReleaseState.NO_RECORD, why="no record", torch=("2.5.0",)),
            JudgedRelease("3.2.0", ReleaseState.BAD, (signature,), torch=("2.6.0",)),
            JudgedRelease(
                "3.3.0", ReleaseState.ADVISED, (), ("it computes 0 × NaN wrongly",), ("sm90",), 2
            ),
            JudgedRelease(
                "3.4.0", ReleaseState.GOOD, targets=("sm80", "sm90"), cells=1, waived_cells=1
            ),
        ),
        judged_waivers=(
            JudgedWaiver(Waiver(reason="issue 7", kernel="chunk_*"), WaiverUse.ACTIVE, 1),
            JudgedWaiver(old_waiver, WaiverUse.EXPIRED),
        ),
        suggest=(PinChange(torch, ">=2.8.0,<2.9"), PinChange(triton, "==3.4.0")),
        helpless=("uv.lock",),
        about="every record",
        known_good=("triton==3.4.0",),
    )
    return gate.report(gate_result, "flacheck gate", suggest=True, strict=True)


def of_autotune(folder: Path) -> Report:
    """A kernel with every fate, a fault of its keys, times, and a fallback."""
    outcome = result(folder, good(), fatal(), source=SOURCE.replace("'USE_G'],", "'NOTHING'],"))
    places = ((outcome.toolchain, "sm90"),)
    failing, use = {"num_warps": 8}, {"num_warps": 4}
    fallback = Fallback(
        outcome.kernel, None, outcome.toolchain, "sm90", failing, use, 1.0, places=places
    )
    first_config = replace(outcome.configs[0], timing=Timing(0.5, 0.4, 0.6, 0.0))
    complete = replace(outcome, configs=[first_config, outcome.configs[1]], fallbacks=(fallback,))
    return autotune.report("made:*", [complete])


def entry(toolchain: str, verdict: Verdict, **more: Any) -> Entry:
    """Return a release's entry, empty but for these fields."""
    nothing = {"signature": None, "code": None, "reason": None, "seconds": 0.0}
    return Entry(toolchain=toolchain, verdict=verdict, **{**nothing, **more})


def of_bisect(_: Path) -> Report:
    """A failure that is mended, with a release between that gave no verdict."""
    signature = "FC302:llir:reshapeOuts:0"
    history = (
        entry("triton==3.1.0", Verdict.COMPILES, seconds=1.5),
        entry("triton==3.2.0", Verdict.FAILS, signature=signature, code="FC302"),
        entry("triton==3.3.0", Verdict.UNKNOWN, code="FC901", reason="time-out after 300 s"),
        entry("triton==3.4.0", Verdict.COMPILES, seconds=30.0, slow=20.0),
    )
    first, fails, between, last = history
    changes = (
        Change(first, fails, Kind.FAIL, ("2.5.0", "2.5.1"), ("2.6.0",)),
        Change(fails, last, Kind.PASS, ("2.6.0",), (), (between.toolchain,)),
    )
    torches = ("2.5.0", "2.5.1", "2.6.0", "2.6.1")
    outcome = Bisection(
        chain().cell(FAILS), Find.CHANGE, history, changes, 5, torches, {"triton==3.2.0": LINE}
    )
    return bisect.report(outcome)


def of_diff(_: Path) -> Report:
    """Every kind of difference between two releases."""
    return diff.report(every_difference(), "flacheck diff a b")


def of_repro(_: Path) -> Report:
    """Return a reduction with other verdicts than the original."""
    return repro.report(reproduced(), Path("repro-0123abcd"), ["repro.py"])


def of_dtypes(_: Path) -> Report:
    """Broken dtype contracts of every kind."""
    return dtypes.report(made_dtypes.answer())


def of_explain(_: Path) -> Report:
    """A log in which one rule sees its failure."""
    return explanation.report(of_log(f"python3: {LINE}\nAborted\n"))


def of_list(_: Path) -> Report:
    """Two rows of unlike length."""
    return document.listing(
        [{"target": "sm90", "gpu": "H100, H200"}, {"target": "gfx942", "gpu": "MI300X"}]
    )


REPORTS: dict[str, Callable[[Path], Report]] = {
    "scan": of_scan,
    "gate": of_gate,
    "autotune": of_autotune,
    "bisect": of_bisect,
    "diff": of_diff,
    "repro": of_repro,
    "dtypes": of_dtypes,
    "explain": of_explain,
    "list": of_list,
}
