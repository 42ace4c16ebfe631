"""Published results answer `diff`, `gate` and `report` without a compile or a download."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import flacheck as package
from flacheck import UsageError
from flacheck.capabilities.results.building import write_manifest
from flacheck.evidence.published.form import decode_body, decode_header, encode
from flacheck.evidence.published.library import open_library
from flacheck.model import Record
from flacheck.store import Store
from flacheck.tables import advisories, find_shipped_folder
from tests.cli.test_cli import flacheck
from tests.evidence.published.test_published import answers, with_own_keys
from tests.evidence.published.test_published import folder as folder
from tests.made_records import PACKAGE, record, scanned
from tests.schemas import validate_json

OLD, NEW = "triton==3.4.0", "triton==3.2.0"
FILE = "flash-linear-attention-0.1.1/usual-triton-3.2.0-sm90.zst"


def _diff(folder: Path, **more: Any) -> Any:
    return package.diff(
        OLD, NEW, package=PACKAGE, target="h100", results=folder, store=folder / "store", **more
    )


def _install_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every installation an error."""

    def refuse(spec: str) -> None:
        raise UsageError(f"{spec} would be installed")

    monkeypatch.setattr("flacheck.pipeline.package_launches.provide_package", refuse)


@pytest.mark.parametrize(
    ("to", "more", "message"),
    [
        ("flash-kmeans==0.3.1", {}, "is compared with another release of it"),
        ("flash-linear-attention==0.1.2", {"package": PACKAGE}, "leave out --package"),
    ],
)
def test_two_packages_are_no_question_to_published_results(
    folder: Path, to: str, more: dict[str, str], message: str
) -> None:
    """Two packages, or a package beside a release of one, are a usage error."""
    with pytest.raises(UsageError, match=message):
        package.diff(PACKAGE, to, triton="3.2.0", target="h100", results=folder, **more)


def test_diff_answers_with_the_source(folder: Path) -> None:
    """The JSON has the source with its date and follows the schema."""
    result = _diff(folder)
    assert result.answer.startswith("No: 1 kernel fails in configurations that are not compared")
    document = result.to_json()
    assert document["source"] == "published"
    assert document["published"]["dates"] == ["2026-11-24"]
    assert result.published.sentence == (
        "published results of 2026-11-24, flacheck 0.1.0; --fresh compiles here; "
        "they cover --configs usual"
    )
    validate_json("diff", document)
    assert not (folder / "store").exists()


def test_the_table_names_the_source(folder: Path) -> None:
    """The table has the date of the published results."""
    ran = flacheck(*("diff", OLD, NEW, "--package", PACKAGE, "--results", str(folder)), cwd=folder)
    assert "published results of 2026-11-24, flacheck 0.1.0; --fresh compiles here" in ran.stdout


def test_records_of_the_store_come_before_published_ones(folder: Path) -> None:
    """The store's record of a cell replaces the published one."""
    failing: dict[str, Any] = {"code": "FC302", "signature": "FC302:x:y", "message": "new"}
    (own,) = with_own_keys([record("fails", NEW, **failing)])
    with Store.open(folder / "store") as store:
        store.add_many(store.begin_run({"flacheck": "0"}, "mine", {}), [own])
    result = _diff(folder)
    assert result.answer.startswith("No: 1 of 1 kernel that compiled under")
    assert (result.published.own_cells, result.published.cells) == (1, 3)
    assert "1 of 3 cells are by records of this store" in result.published.sentence


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"configs": "own"}, "with --configs own is not published; --configs usual is"),
        ({"target": "a100"}, "on sm80 with --configs usual is not published"),
        ({"num_warps": 4}, "a selection by num-warps compiles here"),
    ],
)
def test_a_question_that_asks_more_learns_which_part_is_published(
    folder: Path, options: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A selection that is not published is compiled, with a note."""
    _install_nothing(monkeypatch)
    events: list[str] = []
    arguments = {"target": "h100", "on_event": lambda event: events.append(str(event)), **options}
    with pytest.raises(UsageError, match="would be installed"):
        package.diff(OLD, NEW, package=PACKAGE, results=folder, store=folder / "store", **arguments)
    assert why in " ".join(events)


def test_other_keys_are_not_this_flachecks_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with keys of another computation is left out, with a note."""
    content = (folder / FILE).read_bytes()
    header, body = decode_header(content, "x"), decode_body(content, "x")
    (folder / FILE).write_bytes(encode(replace(header, keys="0" * 32), body))
    write_manifest(folder)
    _install_nothing(monkeypatch)
    events: list[str] = []
    with pytest.raises(UsageError, match="would be installed"):
        _diff(folder, on_event=lambda event: events.append(str(event)))
    assert "this flacheck computes other keys" in " ".join(events)


def test_gate_judges_pins_by_published_results(folder: Path) -> None:
    """The gate's JSON names the source and follows the schema."""
    gate = package.gate(
        triton=">=3.2,<3.5", package=PACKAGE, results=folder, store=folder / "store"
    )
    states = {version.triton: version.state.value for version in gate.versions}
    assert (states["3.2.0"], states["3.4.0"]) == ("bad", "screened")
    assert states["3.3.0"] == "no-record"
    document = gate.to_json()
    assert document["source"] == "published"
    assert gate.published_releases == ("3.2.0", "3.4.0")
    validate_json("gate", document)


def test_gate_judges_the_package_that_the_files_pin(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --package the pinned package is judged, named with its line."""
    monkeypatch.chdir(folder)
    (folder / "requirements.txt").write_text(f"triton>=3.2,<3.5\n{PACKAGE}\n")
    gate = package.gate(results=folder)
    assert gate.about == f"{PACKAGE} (requirements.txt:2)"
    assert gate.published_releases == ("3.2.0", "3.4.0")
    states = {version.triton: version.state.value for version in gate.versions}
    assert states["3.2.0"] == "bad"


@pytest.mark.parametrize(
    ("pins", "note"),
    [
        ("flash-linear-attention==0.1.0", "is not published; the nearest published version is"),
        ("flash-linear-attention>=0.1", "admits several versions; pin one"),
        ("numpy", "no scan decides: --package NAME==VERSION judges by published results"),
    ],
)
def test_gate_says_why_a_pinned_package_does_not_decide(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pins: str, note: str
) -> None:
    """A note has the reason, and no results are used."""
    monkeypatch.chdir(folder)
    (folder / "requirements.txt").write_text(f"triton==3.2.0\n{pins}\n")
    events: list[str] = []
    gate = package.gate(results=folder, on_event=lambda event: events.append(str(event)))
    assert gate.published is None
    assert note in " ".join(events)


def test_a_scan_in_the_store_comes_before_pinned_packages(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stored scan is preferred to the pinned package's results."""
    monkeypatch.chdir(folder)
    (folder / "requirements.txt").write_text(f"triton>=3.2,<3.5\n{PACKAGE}\n")
    with Store.open(folder / ".flacheck") as store:
        scanned(store, [record(toolchain=NEW)], "mine")
    gate = package.gate(results=folder)
    assert gate.published is None
    assert gate.questions == ("mine",)


def test_a_record_of_the_store_comes_before_the_published_one(folder: Path) -> None:
    """A cell that compiles in the store is not failing."""
    compiling, failing = with_own_keys(answers(NEW))
    compiling_record = Record.from_json(
        {**compiling.to_json(), "key": failing.key, "options": failing.options}
    )
    with Store.open(folder / "store") as store:
        scanned(store, [compiling_record], PACKAGE)
    gate = package.gate(triton="==3.2.0", package=PACKAGE, results=folder, store=folder / "store")
    assert gate.versions[0].state.value != "bad"


def test_a_published_failure_counts_beside_a_scan_of_other_configurations(folder: Path) -> None:
    """The gate and the report both count the published failure."""
    good = [record(toolchain=NEW, options={"num_warps": 2, "num_stages": 2})]
    store_folder = folder / "store"
    with Store.open(store_folder) as store:
        scanned(store, good, PACKAGE)
    gate = package.gate(triton="==3.2.0", package=PACKAGE, results=folder, store=store_folder)
    assert gate.versions[0].state.value == "bad"
    assert gate.published_releases == ("3.2.0", "3.4.0")
    run = package.report(store=store_folder, results=folder)
    assert [each.state.value for each in run.standings] == ["bad"]
    assert run.known_good == ()


def test_gate_without_published_results_has_no_record(folder: Path) -> None:
    """With --no-published the gate has no record."""
    gate = package.gate(
        triton="==3.2.0", package=PACKAGE, results=folder, store=folder / "store", no_published=True
    )
    assert gate.versions[0].state.value == "no-record"
    assert gate.to_json()["source"] == "own"


def test_report_shows_published_results_as_a_run(folder: Path) -> None:
    """A report of published results follows the schema of a run."""
    run = package.report(package=PACKAGE, results=folder, store=folder / "store")
    document = run.to_json()
    assert document["run"]["source"] == "published"
    assert document["summary"]["compiles"] == 2
    assert len(document["records"]) == 3
    validate_json("run", document)
    assert {each.toolchain: each.state.value for each in run.standings}[NEW] == "bad"


def test_published_wrong_results_are_advised_against() -> None:
    """Every command that names a release heeds advisories; a measurement alone is only shown."""
    library = open_library(find_shipped_folder("results"))
    wrong = set()
    for entry in library.entries():
        for measured in library.header(entry).measured:
            release = measured.after.partition("==")[2]
            for each in measured.wrong:
                wrong.add((release, entry.target, each.kernel, entry.about))
    assert wrong
    for release, target, kernel, about in wrong:
        assert advisories.against(release, target, kernels=[kernel], package=about), kernel


def test_what_is_shipped_answers_without_network_and_cache(tmp_path: Path) -> None:
    """`known` and `diff` answer in a namespace without network."""
    unshare = shutil.which("unshare")
    probe = [unshare or "false", "-rn", "true"]
    if unshare is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    library = open_library(find_shipped_folder("results"))
    by_about: dict[tuple[str, str], list[str]] = {}
    for entry in library.entries(configs="usual"):
        by_about.setdefault((entry.about, entry.target), []).append(entry.toolchain)
    (about, target), releases = max(by_about.items(), key=lambda item: len(item[1]))
    environment = {**os.environ, "FLACHECK_CACHE_DIR": str(tmp_path / "cache"), "NO_COLOR": "1"}
    command = [unshare, "-rn", sys.executable, "-m", "flacheck"]

    def run(*arguments: str) -> Any:
        ran = subprocess.run(
            [*command, *arguments, "--target", target, "--format", "json"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert ran.returncode in (0, 1), ran.stderr
        return json.loads(ran.stdout)

    assert run("known", about)["places"]
    document = run("diff", releases[0], releases[-1], "--package", about)
    assert document["source"] == "published"
