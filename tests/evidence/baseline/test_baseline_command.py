"""`--write-baseline` and `--baseline` of scan and gate, as a project and its CI use them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from flacheck import toolchains
from flacheck.cli import app
from flacheck.errors import Exit
from flacheck.store import Store
from flacheck.toolchains import torch_pins
from tests.fake.family import FakeFamily
from tests.made_records import DELTA, failure, record, scanned
from tests.paths import ROOT
from tests.schemas import validate_json
from tests.subjects.inputs.launches.test_launches import HEADER, launch, write

ABORT = "abort f.cpp:1: int f(int) const: Assertion `{} == want' failed."
# One of the two configs of the launch fails on release 2.0.
FAILS = {"==2.0": {"by": "num_warps", "4": ABORT.format("size"), "else": "compile"}}
SCAN = ("scan", "l.jsonl", "--target", "sm90", "--memory", "512", "-j", "1")


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project's folder with a launches file; the index is not used."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(here / "cache"))
    monkeypatch.setattr(torch_pins, "refresh", lambda **_: None)
    write(here, HEADER, launch())
    return here


def run(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def scan(
    monkeypatch: pytest.MonkeyPatch,
    *words: str,
    table: dict[str, Any] | None = None,
    releases: Sequence[str] = ("1.0", "2.0"),
) -> Result:
    """A scan of the launch under fake releases that fail by a table, compiled anew."""
    family = FakeFamily({"*": {"else": "compile", **(FAILS if table is None else table)}})
    monkeypatch.setitem(toolchains.FAMILIES, "fake", family)
    release_options = [f"--toolchain=fake=={release}" for release in releases]
    return run(*SCAN, *release_options, "--fresh", *words)


def test_a_scan_with_its_own_baseline_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known failures pass, and the second scan writes the same file."""
    first = scan(monkeypatch, "--write-baseline", "b.json")
    assert first.exit_code == Exit.FINDINGS, first.stderr
    assert "flacheck: b.json: holds 2 pairs of release and GPU and 1 known failure" in first.stderr
    text = (folder / "b.json").read_text()
    validate_json("baseline", json.loads(text))
    second = scan(monkeypatch, "--baseline", "b.json", "--write-baseline", "b.json")
    assert second.exit_code == Exit.OK
    assert "Against b.json\n  0 new failures; 1 cell fails as in the baseline\n" in second.stdout
    assert "1 fails (1 known)" in second.stdout
    assert (folder / "b.json").read_text() == text


def test_only_a_new_failure_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new signature and a new release are each named."""
    scan(monkeypatch, "--write-baseline", "b.json")
    other = {"by": "num_warps", "4": ABORT.format("size"), "2": ABORT.format("rank")}
    broken = scan(
        monkeypatch, "--baseline", "b.json", table={"==2.0": {**other, "else": "compile"}}
    )
    assert broken.exit_code == Exit.FINDINGS
    assert "1 new failure; 1 cell fails as in the baseline" in broken.stdout
    assert "scale, fake 2.0 on sm90: " in broken.stdout
    newer = {"else": {"by": "num_warps", "4": ABORT.format("size"), "else": "compile"}}
    outcome = scan(monkeypatch, "--baseline", "b.json", table=newer, releases=("2.0", "3.0"))
    assert outcome.exit_code == Exit.FINDINGS
    assert "b.json contains nothing about l on fake 3.0 (sm90)" in outcome.stdout


def test_a_mended_failure_asks_for_a_new_baseline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fixed failure is a note to write the baseline again."""
    scan(monkeypatch, "--write-baseline", "b.json")
    outcome = scan(monkeypatch, "--baseline", "b.json", table={})
    assert outcome.exit_code == Exit.OK
    page = " ".join(outcome.stdout.split())
    assert "1 failure mended: write the baseline again with --write-baseline" in page


def test_a_new_release_is_added_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries of other releases stay."""
    scan(monkeypatch, "--write-baseline", "b.json")
    scan(monkeypatch, "--write-baseline", "b.json", table={}, releases=("3.0",))
    (question,) = json.loads((folder / "b.json").read_text())["questions"]
    states = {place["toolchain"]: place["state"] for place in question["places"]}
    assert states == {"fake==1.0": "good", "fake==2.0": "bad", "fake==3.0": "good"}


@pytest.mark.slow
def test_programs_are_told_of_the_comparison(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON follows its schema, and a known failure is a notice in a workflow."""
    scan(monkeypatch, "--write-baseline", "b.json")
    document = json.loads(scan(monkeypatch, "--baseline", "b.json", "--format", "json").stdout)
    validate_json("run", document)
    comparison = document["summary"]["baseline"]
    assert (comparison["file"], comparison["new"], comparison["known"]) == ("b.json", [], 1)
    annotations = scan(monkeypatch, "--baseline", "b.json", "--format", "github").stdout
    assert "::error" not in annotations
    without = json.loads(scan(monkeypatch, "--format", "json").stdout)
    assert "baseline" not in without["summary"]
    assert "::error" in scan(monkeypatch, "--format", "github").stdout


def test_a_file_that_is_no_baseline_stops_the_scan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing baseline is an error before compiling, unless it is written too."""
    missing = scan(monkeypatch, "--baseline", "b.json")
    assert missing.exit_code == Exit.USAGE
    assert "write a baseline with `flacheck scan --write-baseline b.json`" in missing.stderr
    assert not (folder / ".flacheck").exists()
    first = scan(monkeypatch, "--baseline", "b.json", "--write-baseline", "b.json")
    assert (first.exit_code, (folder / "b.json").exists()) == (Exit.FINDINGS, True)


# The gate


@pytest.fixture
def project_with_store(folder: Path) -> Path:
    """A store in which 3.2.0 fails on sm90, and 3.3.1 and 3.4.0 compile."""
    broken = failure(toolchain="triton==3.2.0", options={"num_warps": 8})
    records = [broken, record()]
    records += [record(toolchain=f"triton=={release}") for release in ("3.3.0", "3.3.1", "3.4.0")]
    with Store.open(folder / ".flacheck") as store:
        scanned(store, records)
    return folder


def gate(text: str, *words: str, store: str = "none") -> Result:
    """A gate on a requirements file with this text, on a runner without a store."""
    Path("r.txt").write_text(text)
    return run("gate", "r.txt", "--store", store, *words)


def states(*words: str, text: str = "triton>=3.2,<3.5") -> dict[str, str]:
    document = json.loads(gate(text, "--format", "json", *words).stdout)
    validate_json("gate", document)
    return {version["triton"]: version["state"] for version in document["versions"]}


def test_a_gate_takes_its_pins_as_they_are(project_with_store: Path) -> None:
    """The baseline accepts failures that the pins allowed when it was written."""
    first = gate("triton==3.2.0", "--write-baseline", "b.json", store=".flacheck")
    assert first.exit_code == Exit.FINDINGS
    fresh = gate("triton==3.2.0", "--baseline", "b.json")
    assert fresh.exit_code == Exit.OK
    assert "judged by every scan and b.json" in fresh.stdout
    assert "1 known from the baseline" in fresh.stdout
    gate("triton==3.4.0", "--write-baseline", "b.json", store=".flacheck")
    assert gate("triton==3.4.0", "--baseline", "b.json").exit_code == Exit.OK
    other_pin = gate("triton==3.2.0", "--baseline", "b.json")
    assert other_pin.exit_code == Exit.FINDINGS
    assert "FC302" in other_pin.stdout
    assert not (project_with_store / "none").exists()


def test_a_release_that_was_typed_is_no_pin_of_the_project(project_with_store: Path) -> None:
    """A release on the command line does not change the accepted ones."""
    gate("triton>=3.2,<3.5", "--write-baseline", "b.json", store=".flacheck")
    options = ("--triton", "3.4.0", "--write-baseline", "b.json")
    assert gate("triton>=3.2,<3.5", *options, store=".flacheck").exit_code == Exit.OK
    releases = json.loads((project_with_store / "b.json").read_text())["accepted"]
    assert releases == ["3.2.0", "3.3.0", "3.3.1", "3.4.0"]


def test_a_baseline_that_a_scan_wrote_is_judged_by(project_with_store: Path) -> None:
    """A scan's baseline accepts no releases."""
    gate("triton==3.2.0", "--write-baseline", "b.json", store=".flacheck")
    plain = json.loads((project_with_store / "b.json").read_text())
    assert plain.pop("accepted") == ["3.2.0"]
    (project_with_store / "b.json").write_text(json.dumps(plain))
    assert states("--baseline", "b.json", text="triton==3.2.0") == {"3.2.0": "bad"}


def test_the_settings_name_the_baseline(
    project_with_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiver of the project's settings excuses the baseline's failure."""
    gate("triton==3.4.0", "--write-baseline", "b.json", store=".flacheck")
    waiver = f'\n[[tool.flacheck.waivers]]\nkernel = "{DELTA}"\nreason = "known"\n'
    (project_with_store / "pyproject.toml").write_text(
        f'[tool.flacheck]\nbaseline = "b.json"\n{waiver}'
    )
    from tests.cli.test_cli import flacheck

    (project_with_store / "r.txt").write_text("triton==3.2.0\n")
    outcome = flacheck("gate", "r.txt", "--store", "none", cwd=project_with_store)
    assert outcome.returncode == Exit.OK, outcome.stdout + outcome.stderr
    assert "1 waived" in outcome.stdout


# The workflow of the guide to CI


def workflow() -> dict[str, Any]:
    """Return the workflow that the guide offers to copy."""
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", guide, re.S) if "jobs:" in block)
    # YAML 1.1 takes the key `on` for a truth value.
    content: dict[str, Any] = yaml.safe_load(text.replace("\non:", "\n'on':"))
    return content


def test_the_readmes_workflow_is_whole() -> None:
    """Each job installs flacheck before it runs it."""
    content = workflow()
    assert set(content) == {"name", "on", "permissions", "jobs"}
    for job in content["jobs"].values():
        assert job["runs-on"] == "ubuntu-latest"
        steps = [step.get("uses") or step["run"] for step in job["steps"]]
        assert steps[0].startswith("actions/checkout@")
        installs = next(n for n, step in enumerate(steps) if step.startswith("pip install"))
        asks = next(n for n, step in enumerate(steps) if step.startswith("flacheck "))
        assert installs < asks


def test_the_readmes_workflow_asks_what_flacheck_understands() -> None:
    """Every option exists, and the first recipe is about the checkout."""
    commands: Any = typer.main.get_command(app)
    runs = [
        step["run"] for job in workflow()["jobs"].values() for step in job["steps"] if "run" in step
    ]
    commands_run = [
        shlex.split(run.partition(" >>")[0]) for run in runs if run.startswith("flacheck ")
    ]
    assert [words[1] for words in commands_run] == ["gate", "scan", "report"]
    for _, name, *words in commands_run:
        context = commands.commands[name].make_context(name, list(words))
        assert context.params["format"] in ("github", "markdown")
    for words in commands_run[:2]:
        assert words[2:4] == ["--package", "."]
        assert words[words.index("--baseline") + 1] == ".flacheck-baseline.json"
