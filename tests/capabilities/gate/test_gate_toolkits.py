"""The gate over CUDA toolkits: pins of nvidia-cuda-nvcc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.gate import sources
from flacheck.capabilities.gate.admission import Releases
from flacheck.capabilities.gate.compilers import NVCC
from flacheck.capabilities.gate.evidence import Evidence, RecordFilter
from flacheck.capabilities.gate.judging import Judge
from flacheck.capabilities.gate.pins import Installation, Pin
from flacheck.capabilities.gate.result import Gate
from flacheck.model import Record
from flacheck.store import Store
from tests.cli.test_cli import flacheck
from tests.made_gate import TODAY, states
from tests.made_records import failure, record, scanned, whole
from tests.schemas import validate_json

RELEASES = Releases(("13.0.88", "13.1.115", "13.2.86", "13.5.37"), {}, NVCC)


def on(release: str, **more: Any) -> dict[str, Any]:
    return {"toolchain": f"nvcc=={release}", "target": "sm90a", **more}


BROKEN = failure("FC801", **on("13.1.115"))
RECORDS = [record(**on("13.0.88")), BROKEN, record(**on("13.5.37")), record()]


def gate(records: list[Record], *specifiers: str) -> Gate:
    pins = tuple(
        Pin("r.txt", line, NVCC.distribution, text, (0, 0))
        for line, text in enumerate(specifiers, 1)
    )
    judge = Judge(RELEASES, lambda *asked: (), today=TODAY)
    return judge.judge([Installation("r.txt", pins)], Evidence(whole(records), records))


def test_releases_of_a_toolkit_are_judged_by_their_own_records() -> None:
    """Records of Triton in the same store are not used."""
    result = gate(RECORDS, ">=13.0,<13.6")
    assert states(result) == {
        "13.0.88": "good",
        "13.1.115": "bad",
        "13.2.86": "no-record",
        "13.5.37": "good",
    }
    assert result.exit_code().value == 1
    assert gate(RECORDS, "==13.0.*").exit_code().value == 0
    assert gate(RECORDS, "==13.2.*").exit_code().value == 3


def test_what_to_write_instead_excludes_what_fails() -> None:
    """The suggestion uses the name that files pin."""
    (change,) = gate(RECORDS, ">=13.0,<13.6").suggest
    assert (change.pin.name, change.to) == ("nvidia-cuda-nvcc", ">=13.0,!=13.1.115,<13.6")
    (change_of_exact_pin,) = gate(RECORDS, "==13.1.115").suggest
    assert change_of_exact_pin.to in ("==13.0.88", "==13.5.37")
    good = gate(RECORDS, "==13.1.115").known_good
    assert good == ("nvidia-cuda-nvcc==13.5.37",)


def test_pins_that_exclude_each_other_are_a_contradiction() -> None:
    """Contradicting toolkit pins are a conflict."""
    (conflict,) = gate(RECORDS, "==13.0.*", ">=13.5").conflicts
    assert "no release of nvidia-cuda-nvcc satisfies" in conflict.reason


def test_an_open_pin_admits_releases_that_nobody_knows() -> None:
    """Unknown newer toolkits are listed, and the gate can pass."""
    assert states(gate(RECORDS, ">=13.5")) == {"13.5.37": "good", ">13.5.37": "no-record"}


def test_a_lock_holds_a_toolkit_by_itself(tmp_path: Path) -> None:
    """A lock with a toolkit alone is an installation."""
    lock = tmp_path / "uv.lock"
    lock.write_text('[[package]]\nname = "nvidia-cuda-nvcc"\nversion = "13.0.88"\n')
    (lock_pins,) = sources.of_files([lock])
    assert [pin.requirement for pin in lock_pins.pins] == ["nvidia-cuda-nvcc==13.0.88"]


def test_a_scan_for_more_asks_the_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    """--scan compiles with the toolkit."""
    selections = []
    monkeypatch.setattr(
        "flacheck.capabilities.gate.evidence.planning.plan_job",
        lambda job: selections.append(job.selection),
    )
    RecordFilter("cuda", compiler=NVCC).plan(["13.0.88"])
    assert selections[0].toolchains == ("nvcc==13.0.88",)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with Store.open(tmp_path / ".flacheck") as store:
        scanned(store, RECORDS)
    return tmp_path


def test_the_command_says_which_toolkits_the_pins_allow(project: Path) -> None:
    """The table has no torch, and the JSON follows its schema."""
    (project / "requirements.txt").write_text("nvidia-cuda-nvcc>=13.0,<13.2\n")
    outcome = flacheck("gate", cwd=project)
    assert outcome.returncode == 1
    assert "your pins allow 2 nvcc releases: 1 good, 1 bad" in outcome.stdout
    assert "torch" not in outcome.stdout and "Triton" not in outcome.stdout
    json_outcome = flacheck("gate", "--format", "json", "--toolchain", "nvcc==13.0", cwd=project)
    assert json_outcome.returncode == 0, json_outcome.stderr
    document = json.loads(json_outcome.stdout)
    assert document["compiler"] == "nvcc"
    validate_json("gate", document)


def test_a_toolkit_that_nothing_pins_is_an_empty_selection(project: Path) -> None:
    """The message names the package to pin."""
    (project / "requirements.txt").write_text("triton==3.2.0\n")
    outcome = flacheck("gate", "--toolchain", "nvcc", cwd=project)
    assert outcome.returncode == 4
    assert "nothing here pins nvcc: pin nvidia-cuda-nvcc in a file" in outcome.stderr


def test_a_scan_for_more_takes_the_question_that_decides() -> None:
    """--scan takes the question of the same compiler."""
    cuda = whole([record(**on("13.0.88"))], about="cuda", source="cuda")
    seeds = whole([record()], about="seeds", source="seeds")
    record_filter = RecordFilter(compiler=NVCC).of_only_question([*cuda, *seeds])
    assert (record_filter.matrix, record_filter.targets) == ("cuda", ("sm90a",))
    assert RecordFilter().of_only_question([*cuda, *seeds]).matrix == "seeds"
