"""Installs that survive everything."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.errors import ToolchainError, UsageError
from flacheck.toolchains import cache, filling, triton
from tests.made_toolchains import failure

PROVIDE = """
import logging, sys
from flacheck import toolchains
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
toolchains.provide(toolchains.resolve(['3.4.0']).choices[0])
"""


def test_a_release_is_installed_once_and_found_again(
    installer_log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second call starts no installer; the manifest lists the release, and the log has its time
    and size."""
    caplog.set_level(logging.INFO, logger="flacheck")
    choice = toolchains.resolve(["3.4.0"]).choices[0]
    first = toolchains.provide(choice)
    second = toolchains.provide(choice)
    assert first == second
    assert (Path(first.path) / "triton" / "__init__.py").is_file()
    assert len(installer_log.read_text().split()) == 1
    assert caplog.messages[0] == "installing triton 3.4.0 …"
    assert caplog.messages[1].endswith(" MB")
    assert len(caplog.messages) == 2
    (shelf,) = toolchains.installed_toolchains()
    assert shelf.manifest["identity"] == "triton==3.4.0"
    assert shelf.manifest["contains"] == {"triton": "3.4.0"}


@pytest.mark.parametrize(
    "mode, message",
    [
        ("no-space", "no space left on the device"),
        ("no-network", "the package index could not be reached"),
        ("no-permission", "FLACHECK_CACHE_DIR"),
        ("not-found", "finds no such release"),
        ("odd", "the moon is full"),
    ],
)
def test_a_failed_install_says_what_to_do_and_leaves_nothing(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    """The message has the remedy, the exit code is 3, and no folder is left."""
    monkeypatch.setenv("FAKE_INSTALLER", mode)
    assert message in failure()
    assert [p.name for p in (cache.root() / "toolchains").iterdir()] == [".locks"]
    assert list(toolchains.installed_toolchains()) == []


def test_a_cache_that_cannot_be_written_is_one_message(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache's place is a file (root may write anywhere else)."""
    file = installer_log.parent / "blocked"
    file.write_text("")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(file))
    assert "set FLACHECK_CACHE_DIR" in failure()


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROVIDE], stdout=subprocess.PIPE, text=True)


def _wait_for(condition: Path, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition.read_text()


@pytest.mark.slow
def test_kill_9_in_mid_install_leaves_nothing_that_looks_complete(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start sweeps the remains and installs afresh."""
    monkeypatch.setenv("FAKE_INSTALLER", "stuck")
    process = _start()
    _wait_for(installer_log)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    os.kill(int(installer_log.read_text()), signal.SIGKILL)
    assert list(toolchains.installed_toolchains()) == []
    folder = cache.root() / "toolchains"
    assert [p.name for p in folder.glob(".tmp-*")] != []
    monkeypatch.delenv("FAKE_INSTALLER")
    toolchains.provide(toolchains.resolve(["3.5.0"]).choices[0])
    assert list(folder.glob(".tmp-*")) == []
    toolchains.provide(toolchains.resolve(["3.4.0"]).choices[0])
    assert [s.manifest["version"] for s in toolchains.installed_toolchains()] == ["3.4.0", "3.5.0"]


@pytest.mark.slow
def test_two_processes_install_once_and_the_second_says_that_it_waits(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both processes end well with the same folder."""
    release = installer_log.with_name("release")
    monkeypatch.setenv("FAKE_INSTALLER", "held")
    monkeypatch.setenv("FAKE_INSTALLER_RELEASE", str(release))
    first = _start()
    _wait_for(installer_log)
    second = _start()
    assert second.stdout
    waiting = second.stdout.readline()
    release.touch()
    rest = second.communicate()[0]
    first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting for another flacheck" in waiting
    assert "installing" not in rest
    assert len(installer_log.read_text().split()) == 1


def test_a_full_disk_while_writing_the_manifest_is_explained(tmp_path: Path) -> None:
    """flacheck's own writes can fail on a full disk too."""

    def full(_: Path) -> dict[str, object]:
        raise OSError(28, "No space left on device")

    with pytest.raises(ToolchainError, match="no space left on the device"):
        filling.fill(tmp_path / "toolchains" / "x", full)


def test_a_release_in_use_cannot_be_removed(installer_log: Path) -> None:
    """The error names the process that uses it; when that has ended, the release can be removed."""
    waits = PROVIDE + "print('ready', flush=True); sys.stdin.read()"
    user = subprocess.Popen(
        [sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert user.stdin and user.stdout
    with user:
        while b"ready" not in user.stdout.readline():
            assert user.poll() is None
        with pytest.raises(UsageError, match=f"in use by process {user.pid} "):
            toolchains.remove(["3.4.0"])
        assert list(toolchains.installed_toolchains())
        user.stdin.close()
        user.wait()
    assert toolchains.remove(["3.4.0"])
    assert not list(toolchains.installed_toolchains())


def test_of_several_releases_none_is_removed_while_one_is_in_use(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All or none."""
    for version in ("3.3.0", "3.4.0"):
        toolchains.provide(toolchains.resolve([version]).choices[0])
    used = triton.folder(toolchains.resolve(["3.4.0"]).choices[0])
    # As another process holds it.
    handle = filling.IN_USE.pop(used)
    try:
        with pytest.raises(filling.InUse):
            toolchains.remove(["3.3.0", "3.4.0"])
    finally:
        os.close(handle)
    assert len(list(toolchains.installed_toolchains())) == 2


def test_a_release_that_this_process_used_can_be_removed_by_it(installer_log: Path) -> None:
    """The release can be installed again and used."""
    choice = toolchains.resolve(["3.4.0"]).choices[0]
    for _ in range(2):
        toolchains.provide(choice)
        assert toolchains.remove(["3.4.0"])
