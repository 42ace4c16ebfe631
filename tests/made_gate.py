"""Hand-made pins, releases and records for the tests of the gate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from flacheck.capabilities.gate.admission import Releases
from flacheck.capabilities.gate.evidence import Evidence
from flacheck.capabilities.gate.judging import Judge
from flacheck.capabilities.gate.pins import Installation, Pin
from flacheck.capabilities.gate.result import Gate
from flacheck.model import Record
from tests.made_records import failure, record, whole

RELEASES = Releases(
    ("3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0", "3.5.0", "3.8.0"),
    {
        "2.5.1": "==3.1.0",
        "2.6.0": "==3.2.0",
        "2.7.0": "==3.3.0",
        "2.7.1": "==3.3.1",
        "2.8.0": "==3.4.0",
        "2.9.0": "==3.5.0",
        "2.14.0": "~=3.8.0",
        "2.14.1": "~=3.8.0",
    },
)


TODAY = date(2026, 11, 21)


def installation(*requirements: str) -> Installation:
    """Pins as the lines of one requirements file have them."""
    names = ["torch" if text.startswith("torch") else "triton" for text in requirements]
    pins = [
        Pin("r.txt", line, name, text.removeprefix(name), (0, 0))
        for line, (name, text) in enumerate(zip(names, requirements), 1)
    ]
    return Installation("r.txt", tuple(pins))


def gate(
    records: Sequence[Record], *requirements: str, history: Sequence[Record] = (), **changes: Any
) -> Gate:
    judge = Judge(**{"releases": RELEASES, "advise": lambda *asked: (), "today": TODAY, **changes})
    evidence = Evidence(
        whole(records),
        records,
        lambda signature: [r for r in history if signature == r.signature],
    )
    return judge.judge([installation(*requirements)], evidence)


def on(release: str, **more: Any) -> dict[str, Any]:
    return {"toolchain": f"triton=={release}", **more}


BROKEN = failure(**on("3.2.0"), options={"num_warps": 8})


COMPILES = [record(**on(release)) for release in ("3.1.0", "3.4.0", "3.5.0", "3.8.0")]


RECORDS = [BROKEN, record(**on("3.2.0")), failure(**on("3.3.0")), *COMPILES]


def states(outcome: Gate) -> dict[str, str]:
    return {version.triton: version.state.value for version in outcome.versions}
