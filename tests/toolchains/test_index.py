"""What the package index lists, asked once a day."""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.packages import installing
from flacheck.packages.package import provide_package
from flacheck.toolchains import cache, index, nvcc_releases, triton_releases, wheels

# pip's words with two -v for an index that has no such project, one that cannot be reached, one
# that refuses, and one whose page is none.
NONE = "Could not fetch URL http://b/triton/: 404 Client Error: Not Found for url: http://b/ - skipping"
UNREACHED = "Could not fetch URL https://u:secret@a/triton/: connection error: refused - skipping"
FORBIDDEN = "Could not fetch URL http://a/triton/: 403 Client Error: Forbidden for url: http://a/ - skipping"
NO_PAGE = (
    "WARNING: Skipping page http://a/triton/ because the GET request got Content-Type: text/plain."
)
LISTED = "triton (3.8.0)\nAvailable versions: 3.8.0, 3.4.0\n"


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what pip prints; the cache is empty."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])

    def prints(*lines: str, code: int = 0) -> None:
        monkeypatch.setattr(wheels, "run", lambda *_: (code, "\n".join(lines)))

    return prints


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (UNREACHED, r"https://a/triton/ did not answer \(connection error: refused\)"),
        (FORBIDDEN, r"http://a/triton/ did not answer \(403 Client Error: Forbidden\)"),
        (NO_PAGE, r"http://a/triton/ did not answer \(the GET request got Content-Type"),
    ],
)
def test_an_answer_of_some_indexes_is_incomplete_and_not_kept(
    pip: Callable[..., None], line: str, said: str
) -> None:
    """pip ends well where another index answers; the next look-up tries all of them again."""
    pip(line, LISTED)
    with pytest.raises(index.PartialAnswer, match=said) as error:
        index.available("triton")
    assert [str(version) for version in error.value.versions] == ["3.4.0", "3.8.0"]
    assert "secret" not in str(error.value)
    assert error.value.exit_code == 3
    pip(NONE, LISTED)
    assert [str(version) for version in index.available("triton")] == ["3.4.0", "3.8.0"]


def test_an_index_without_the_project_is_an_answer(pip: Callable[..., None]) -> None:
    """Nothing in any index is NotFound; an index that did not answer may have it."""
    missing = "ERROR: No matching distribution found for triton"
    pip(NONE, missing, code=1)
    with pytest.raises(wheels.NotFound):
        index.available("triton")
    pip(FORBIDDEN, missing, code=1)
    with pytest.raises(index.PartialAnswer, match="403 Client Error"):
        index.available("triton")


def test_a_release_that_some_index_lists_exists(pip: Callable[..., None]) -> None:
    """One that the others lack is unknown (exit 3), and not a release that does not exist."""
    pip(UNREACHED, "Available versions: 3.99.0\n")
    assert triton_releases.exact(Version("3.99.0")).reason is None
    for unknown_release in (
        lambda: triton_releases.exact(Version("3.98.0")),
        lambda: triton_releases.matching(SpecifierSet("==3.98.*")),
        lambda: nvcc_releases.exact(Version("13.98.1")),
        lambda: nvcc_releases.matching(SpecifierSet("==13.98.*")),
    ):
        with pytest.raises(ToolchainError, match="https://a/triton/ did not answer"):
            unknown_release()


def test_an_incomplete_answer_leaves_no_known_release_out(pip: Callable[..., None]) -> None:
    """The newest release is that of the shipped table, and a warning names the index."""
    pip(UNREACHED, LISTED)
    resolution = triton_releases.matching(SpecifierSet(">=3.6"))
    newest = max(triton_releases.known_releases(), key=Version)
    assert resolution.choices[-1].version == newest
    assert [said for said in resolution.warnings if "did not answer" in said]
    assert not [said for said in resolution.warnings if "left out" in said]


def test_an_earlier_answer_serves_beside_an_incomplete_one(pip: Callable[..., None]) -> None:
    """What was read of all indexes before, and what some of them list today."""
    page = f"{cache.python_tag()}:here:wheels"
    cache.write_json("index/triton.json", {page: {"time": 0, "versions": ["3.9.0"]}})
    pip(UNREACHED, LISTED)
    assert [str(v) for v in index.available("triton")] == ["3.4.0", "3.8.0", "3.9.0"]


def test_a_package_is_only_missing_where_all_indexes_answer(
    pip: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it cannot be had today: exit 3."""

    def not_found(*_: object) -> None:
        raise wheels.NotFound("cannot install toy 1.0: pip finds no such release")

    monkeypatch.setattr(installing, "from_index", not_found)
    pip(FORBIDDEN, "Available versions: 2.0\n")
    with pytest.raises(index.PartialAnswer):
        provide_package("toy==1.0")
    pip("Available versions: 2.0\n")
    with pytest.raises(UsageError, match=r"there is no toy 1\.0; the nearest are 2\.0"):
        provide_package("toy==1.0")


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed")
def test_pip_itself_reports_an_index_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of wheels lists one release, and nothing listens at the index."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        (tmp_path / "toy-1.0-py3-none-any.whl").touch()
        found = [each for each in wheels.installers() if each.name == "pip"]
        monkeypatch.setattr(wheels, "installers", lambda: found)
        with pytest.raises(
            index.PartialAnswer, match=f"http://127.0.0.1:{port}/simple/toy/ did not"
        ):
            index.available("toy")


def test_versions_are_listed_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the index said is kept, prereleases and local versions left out."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    runs: list[str] = []

    def run(command: list[str], what: str) -> tuple[int, str]:
        runs.append(what)
        return 0, "triton (3.9.0)\nAvailable versions: 3.9.0, 3.8.0rc1, 3.4.0+cpu, 3.4.0\n"

    monkeypatch.setattr(wheels, "run", run)
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    assert [str(v) for v in index.available("triton")] == ["3.4.0", "3.9.0"]
    assert index.available("triton") == index.available("triton")
    assert runs == ["triton"]


def test_what_was_read_once_serves_while_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older than a day it is asked again, and kept when nobody answers."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    monkeypatch.setattr(
        wheels, "run", lambda *_: (1, "WARNING: Retrying (Retry(total=0)) after connection broken")
    )
    with pytest.raises(wheels.Offline, match="cannot look up triton"):
        index.available("triton")
    old = {f"{cache.python_tag()}:here:wheels": {"time": 0, "versions": ["3.9.0"]}}
    cache.write_json("index/triton.json", old)
    assert index.available("triton") == [Version("3.9.0")]


def test_without_a_network_only_the_first_look_up_waits(
    pip: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of the process fail at once, with its message."""
    started: list[str] = []

    def run(command: list[str], what: str) -> tuple[int, str]:
        started.append(what)
        return 1, "Retrying (Retry(total=0)) after connection broken"

    monkeypatch.setattr(wheels, "run", run)
    messages = []
    for name in ("triton", "torch", "nvidia-cuda-nvcc"):
        with pytest.raises(wheels.Offline) as error:
            index.available(name)
        messages.append(str(error.value))
    assert (started, len(set(messages))) == (["triton"], 1)
