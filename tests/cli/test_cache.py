"""`flacheck cache`: sizes, clean and prune."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flacheck.cli import app
from flacheck.errors import Exit
from tests.schemas import validate_json

DAY = 86_400.0


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["cache", *words])


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a cache with a toolchain used now, a package of 40 days ago and a capture of 3."""
    root = tmp_path / "cache"
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(root))
    ages = {"toolchains/triton-3.9.0": 0, "packages/shop-1.0": 40, "captures/shop-1.0-ab": 3}
    for name, days in ages.items():
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 1_500_000)
        os.utime(folder, (time.time() - days * DAY,) * 2)
    return root


def remaining(root: Path) -> set[str]:
    return {each.parent.name for each in root.glob("*/*/file")}


def test_sizes_are_listed_by_kind(cached: Path) -> None:
    """Every folder has its size and age, and the sum is last."""
    outcome = run()
    assert outcome.exit_code == Exit.OK
    lines = [" ".join(line.split()) for line in outcome.stdout.splitlines()]
    assert "packages shop-1.0 1.5 MB 40 d ago" in lines
    assert "toolchains triton-3.9.0 1.5 MB under 1 h ago" in lines
    assert "4.5 MB in" in outcome.stdout


def test_the_json_follows_its_schema(cached: Path) -> None:
    """Sizes are in bytes."""
    value = json.loads(run("list", "--format", "json").stdout)
    validate_json("cache", value)
    assert {each["name"]: each["bytes"] for each in value["entries"]}["shop-1.0"] == 1_500_000


def test_prune_removes_what_was_not_used_for_that_long(cached: Path) -> None:
    """Only folders that are older are removed, and a dry run removes none."""
    assert (
        "1 folders, 1.5 MB would be removed" in run("prune", "--older", "30d", "--dry-run").stdout
    )
    assert len(remaining(cached)) == 3
    assert run("prune", "--older", "30d").exit_code == Exit.OK
    assert remaining(cached) == {"triton-3.9.0", "shop-1.0-ab"}


def test_a_use_makes_a_folder_young(cached: Path) -> None:
    """The lock of the last use decides a folder's age."""
    locks = cached / "packages" / ".locks"
    locks.mkdir()
    (locks / "shop-1.0.use").touch()
    run("prune", "--older", "1d")
    assert remaining(cached) == {"triton-3.9.0", "shop-1.0"}


def test_clean_takes_kinds(cached: Path) -> None:
    """An unknown kind is an error and removes nothing."""
    outcome = run("clean", "package")
    assert (outcome.exit_code, len(remaining(cached))) == (Exit.USAGE, 3)
    assert "did you mean packages?" in outcome.stderr
    run("clean", "packages", "captures")
    assert remaining(cached) == {"triton-3.9.0"}
    run("clean")
    assert remaining(cached) == set()


def test_what_another_process_uses_stays(cached: Path) -> None:
    """A locked folder stays, and the report names it."""
    locks = cached / "toolchains" / ".locks"
    locks.mkdir()
    with open(locks / "triton-3.9.0.use", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        outcome = run("clean")
    assert outcome.exit_code == Exit.OK
    assert "triton-3.9.0 stays: another process uses it." in outcome.stdout
    assert remaining(cached) == {"triton-3.9.0"}


@pytest.mark.parametrize("time_", ["30x", "-1d", "", "d"])
def test_a_malformed_duration_removes_nothing(cached: Path, time_: str) -> None:
    """The message shows the valid forms."""
    outcome = run("prune", f"--older={time_}")
    assert (outcome.exit_code, len(remaining(cached))) == (Exit.USAGE, 3)
    assert "30d" in outcome.stderr
