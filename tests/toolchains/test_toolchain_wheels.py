"""Installing wheels by uv or pip, whichever is there."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path

import pytest

from flacheck.errors import ToolchainError
from flacheck.toolchains import connections, index_settings, wheels
from tests.made_toolchains import failure
from tests.package_index import served


def test_no_installer_at_all_is_said(installer_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names uv, pip and the way to get one."""
    monkeypatch.setattr(wheels, "installers", list)
    assert "neither uv nor pip" in failure()


def test_the_second_installer_is_asked_when_the_first_finds_nothing(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An index that is set for pip alone serves; a full disk is not tried twice."""
    missing = wheels.Installer("uv", ("sh", "-c", "echo 'no version of triton'; exit 1"), ())
    works = wheels.Installer("pip", ("sh", "-c", "true"), ())
    monkeypatch.setattr(wheels, "installers", lambda: [missing, works])
    assert wheels.install(["triton==3.4.0"], tmp_path, what="triton")["installer"] == "pip"
    full = wheels.Installer("uv", ("sh", "-c", "echo 'os error 28'; exit 1"), ())
    monkeypatch.setattr(wheels, "installers", lambda: [full, works])
    with pytest.raises(ToolchainError, match="no space"):
        wheels.install(["triton==3.4.0"], tmp_path, what="triton")


def test_the_users_constraints_do_not_reach_what_is_installed_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cap on torch in the user's environment does not apply to a folder of flacheck's own."""
    monkeypatch.setenv("PIP_CONSTRAINT", "/there/constraints.txt")
    monkeypatch.setenv("UV_CONSTRAINT", "/there/constraints.txt")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    status, output = wheels.run([sys.executable, "-c", code], "nothing")
    options = json.loads(output)
    assert status == 0
    # An empty file: of an empty variable pip takes no notice.
    assert options["PIP_CONSTRAINT"] == os.devnull
    assert "UV_CONSTRAINT" not in options
    assert options["PIP_INDEX_URL"] == "https://index.example/simple"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's checkout as the current folder; its modules write `run` if they are imported."""
    folder = tmp_path / "checkout"
    (folder / "wheels").mkdir(parents=True)
    for name in ("pip", "packaging", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'run')!r}, 'w')\n")
    monkeypatch.chdir(folder)
    return folder


def test_pip_imports_no_module_of_the_current_folder(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout with a `pip.py` would run with the user's rights."""
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    command = [sys.executable, "-m", "pip"]
    status, output = wheels.run([*command, "--version"], "nothing")
    assert (status, output.startswith("pip ")) == (0, True), output
    options = index_settings.pip_options(command)
    assert options["index-url"] == "https://index.example/simple"
    assert not (checkout / "run").exists()


def test_uv_reads_no_index_from_the_current_folder(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout's uv.toml could otherwise choose the index of every compiler."""
    uv = next((each for each in wheels.installers() if each.name == "uv"), None)
    if uv is None:
        pytest.skip("uv is not installed")
    with served() as mine, served() as theirs:
        for name, table in (("uv.toml", "index"), ("pyproject.toml", "tool.uv.index")):
            (checkout / name).write_text(f'[[{table}]]\nurl = "{theirs.url}/simple"\n')
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{mine.url}/simple")
        wheels.run([*uv.install, "--target", str(tmp_path / "into"), "evil==1.0"], "evil")
        assert (mine.requests != [], theirs.requests) == (True, [])


def test_relative_places_start_at_the_current_folder(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installers run in another folder; URLs and absolute paths are unchanged."""
    monkeypatch.setenv("PIP_FIND_LINKS", "wheels https://x.example/links /srv/wheels")
    code = "import os; print(os.environ['PIP_FIND_LINKS'], os.getcwd())"
    _, output = wheels.run([sys.executable, "-c", code], "nothing")
    places = f"{checkout}/wheels https://x.example/links /srv/wheels"
    assert output == f"{places} /\n"


def test_what_is_constrained_holds_whatever_versions_a_package_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv installs a project that caps its torch beside the stand-in."""
    script = 'printf "%s\\n" "$@" > "$SEEN"'
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("torch @ file:///stand-in.whl\n")
    for name, overrides in (("uv", True), ("pip", False)):
        installer = wheels.Installer(name, ("sh", "-c", script, "sh"), ())
        monkeypatch.setattr(wheels, "installers", lambda only=installer: [only])
        monkeypatch.setenv("SEEN", str(tmp_path / name))
        wheels.install(["mine"], tmp_path / "into", what="mine", constraints=constraints)
        words = (tmp_path / name).read_text().split()
        assert words[words.index("--constraint") + 1] == str(constraints)
        assert ("--override" in words) is overrides


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  Downloading toy-1.0-py3-none-any.whl (188.5 MB)", "fetching toy 1.0 (188.5 MB) …"),
        (
            "Downloading https://my.index/toy-1.0.tar.gz (1.2 GB)",
            "fetching toy 1.0.tar.gz (1.2 GB) …",
        ),
        ("Downloading toy (1.2MiB)", "fetching toy (1.2 MB) …"),
        ("  Downloading toy-1.0-py3-none-any.whl.metadata (1.5 kB)", None),
        ("Using cached toy-1.0-py3-none-any.whl (188.5 MB)", None),
    ],
)
def test_a_download_is_announced_with_its_size(
    caplog: pytest.LogCaptureFixture, line: str, message: str | None
) -> None:
    """Each line of pip and uv that names a large file is logged before the file arrives."""
    caplog.set_level(logging.INFO, logger="flacheck")
    code = f"import sys, time; print({line!r}); time.sleep(0.5); sys.exit('the end')"
    seconds = []
    log = logging.getLogger("flacheck.toolchains.wheels")

    def note(record: logging.LogRecord) -> bool:
        seconds.append(time.monotonic())
        return True

    log.addFilter(note)
    try:
        status, output = wheels.run([sys.executable, "-c", code], "toy")
    finally:
        log.removeFilter(note)
    assert (status, output) == (1, f"{line}\nthe end\n")
    assert caplog.messages == ([message] if message else [])
    assert all(time.monotonic() - second > 0.4 for second in seconds)


def test_a_long_installation_logs_its_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line of progress appears while an installer is silent."""
    monkeypatch.setattr(wheels, "HEARTBEAT", 0.1)
    caplog.set_level(logging.INFO, logger="flacheck")
    wheels.run([sys.executable, "-c", "import time; time.sleep(0.5)"], "installing toy 1.0")
    assert "installing toy 1.0 … 0 s" in caplog.messages


def test_an_unreachable_index_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later installations read uv's cache and local folders alone, and fail at once."""
    calls = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(calls))
    script = 'echo "$0 $* $PIP_NO_INDEX" >> "$CALLS"; echo "$OUTPUT"; exit 1'
    installers = [wheels.Installer(name, ("sh", "-c", script, name), ()) for name in ("uv", "pip")]
    monkeypatch.setattr(wheels, "installers", lambda: installers)
    monkeypatch.setenv("OUTPUT", "error: dns error")
    with pytest.raises(wheels.Offline, match="could not be reached"):
        wheels.install(["toy"], tmp_path / "into", what="toy")
    assert connections.has_no_index()
    monkeypatch.setenv("OUTPUT", "No matching distribution")
    with pytest.raises(wheels.Offline, match="not in the cache, and no package index answers"):
        wheels.install(["toy"], tmp_path / "into", what="toy")
    first_uv, first_pip, uv, pip = calls.read_text().splitlines()
    assert "--offline" not in first_uv and not first_pip.endswith("1")
    assert "--offline" in uv and pip.endswith(" 1")
