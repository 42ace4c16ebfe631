"""One standing of a package, release and GPU in every command."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import flacheck
from flacheck.capabilities.results.building import write_manifest
from flacheck.errors import Exit
from flacheck.evidence.published.evidence import judged_evidence
from flacheck.evidence.published.form import encode, file_name
from flacheck.evidence.published.library import open_library
from flacheck.model import Record
from flacheck.store import Store
from tests.evidence.published.test_published import pack_records, with_own_keys
from tests.made_records import PACKAGE, failure, record, scanned, unknown

RELEASES = ("3.4.0", "3.5.1", "3.6.0")
KERNELS = ("m:first", "m:second")
LIST = """version: 1
combinations:
  - {package: flash-linear-attention, versions: [0.1.1], triton: [3.4.0], targets: [sm90]}
"""
# The outcome of a kernel in some configurations; None if it is not compiled there.
OUTCOMES = st.sampled_from(["compiles", "compiles", "FC111", "FC302", "FC501", "unknown", None])
# Sources of evidence: two kinds of published files, and the user's own scan.
SOURCES = ("usual", "edges", "own scan")
EVIDENCE = st.dictionaries(
    st.tuples(st.sampled_from(SOURCES), st.sampled_from(RELEASES)),
    st.tuples(*(OUTCOMES for _ in KERNELS)),
    min_size=2,
)
Evidence = Mapping[tuple[str, str], tuple[str | None, ...]]


@pytest.fixture(autouse=True)
def no_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide installed packages, whose files differ from the test's results."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))


def _records(source: str, release: str, outcomes: tuple[str | None, ...]) -> list[Record]:
    """Return the records of one question, with configurations of its own."""
    warps = {"num_warps": 2 ** (1 + SOURCES.index(source))}
    records = []
    for kernel, outcome in zip(KERNELS, outcomes):
        cell: dict[str, Any] = {
            "kernel": kernel,
            "toolchain": f"triton=={release}",
            "options": warps,
        }
        if outcome == "compiles":
            records.append(record(**cell))
        elif outcome == "unknown":
            records.append(unknown(**cell))
        elif outcome is not None:
            records.append(failure(outcome, stage="ast", **cell))
    return with_own_keys(records)


def _write(folder: Path, evidence: Evidence) -> None:
    """Write published files and a store."""
    for (source, release), outcomes in evidence.items():
        records = _records(source, release, outcomes)
        if not records:
            continue
        if source == "own scan":
            with Store.open(folder / "store") as store:
                scanned(store, records, PACKAGE)
            continue
        header, body = pack_records(records, source)
        path = folder / file_name(header)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(header, body))
    combinations = folder / "list.yaml"
    combinations.write_text(LIST)
    write_manifest(folder, combinations)


# A published failure beside one of the user's own scan, which every release has in common.
SHARED: Evidence = {
    ("usual", "3.5.1"): ("compiles", "FC111"),
    ("own scan", "3.4.0"): ("compiles", "FC111"),
    ("own scan", "3.5.1"): ("unknown", "FC111"),
}
# A failure in the user's own configurations, of a kernel that fails for both in the usual ones.
OWN: Evidence = {
    ("usual", "3.4.0"): ("FC111", "compiles"),
    ("usual", "3.5.1"): ("FC111", "compiles"),
    ("edges", "3.5.1"): ("compiles", "compiles"),
    ("own scan", "3.5.1"): ("FC111", "compiles"),
}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@example(SHARED)
@example({**SHARED, ("edges", "3.5.1"): ("compiles", "compiles")})
@example(OWN)
@given(EVIDENCE)
def test_commands_agree_on_every_evidence(evidence: Evidence) -> None:
    """`known`, `gate`, `report` and `diff` agree on verdicts, pins and exit codes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, evidence)
        library = open_library(folder)
        store_folder = folder / "store"
        states: dict[str, str] = {}
        with Store.open(store_folder) as store:
            for standing in judged_evidence(PACKAGE, ["sm90"], store, library):
                states[standing.toolchain.removeprefix("triton==")] = standing.state.value
        _check_gate(folder, states)
        _check_known(folder, states)
        _check_report(folder, states)
        _check_diff(folder, states)


def _check_gate(folder: Path, states: Mapping[str, str]) -> None:
    for release, state in states.items():
        pins = folder / "requirements.txt"
        pins.write_text(f"triton=={release}\n")
        result = flacheck.gate(
            [pins],
            package=PACKAGE,
            target="sm90",
            results=folder,
            store=folder / "store",
        )
        (version,) = result.versions
        assert version.standing.value == state
        exit_codes = {
            "bad": Exit.FINDINGS,
            "partial": Exit.INCOMPLETE,
            "no-record": Exit.INCOMPLETE,
        }
        assert result.exit_code() == exit_codes.get(state, Exit.OK)


def _check_known(folder: Path, states: Mapping[str, str]) -> None:
    if not open_library(folder).manifest.files:
        return
    answer = flacheck.known(PACKAGE, target="sm90", results=folder, store=folder / "store")
    pins = {pair.toolchain.removeprefix("triton==") for pair in answer.known_good}
    for place in answer.places:
        release = place.toolchain.removeprefix("triton==")
        assert (place.standing.value == "bad") == (states[release] == "bad")
        assert release not in pins or states[release] in ("good", "screened")
        assert bool(place.failing_kernels) == (states[release] == "bad")


def _check_report(folder: Path, states: Mapping[str, str]) -> None:
    with Store.open(folder / "store") as store:
        runs = store.runs()
    for run in runs:
        stored_run = flacheck.report(run.id, results=folder, store=folder / "store")
        for standing in stored_run.standings:
            release = standing.toolchain.removeprefix("triton==")
            assert (standing.state.value == "bad") == (states[release] == "bad")
        for good in stored_run.known_good:
            assert states[good.triton or ""] in ("good", "screened")


def _check_diff(folder: Path, states: Mapping[str, str]) -> None:
    toolchains = {entry.toolchain for entry in open_library(folder).entries(configs="usual")}
    releases = [release for release in RELEASES if f"triton=={release}" in toolchains]
    for before, after in pairwise(releases):
        result = flacheck.diff(
            f"triton=={before}",
            f"triton=={after}",
            package=PACKAGE,
            configs="usual",
            target="sm90",
            results=folder,
            store=folder / "store",
        )
        pin = result.pin
        if pin.side in ("to", "from", "other") and pin.triton:
            assert states[pin.triton.removeprefix("triton==")] != "bad"
        if states[before] in ("good", "screened") and states[after] == "bad":
            assert result.exit_code() == Exit.FINDINGS
