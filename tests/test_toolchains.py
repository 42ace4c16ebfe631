"""Toolchains: specifications, installs that survive everything, identities, places."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from flacheck import toolchains
from flacheck.errors import Exit, ToolchainError, UsageError
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import cache, filling, identity, index, lld, triton_releases, wheels
from tests import fake_installer

ALL = ["3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0", "3.5.0", "3.9.0"]
PROVIDE = """
import logging, sys
from flacheck import toolchains
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
toolchains.provide(toolchains.resolve(['3.4.0']).choices[0])
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own and the fake uv first on the PATH; the log of its runs is returned."""
    (tmp_path / "bin").mkdir()
    log = tmp_path / "installer.log"
    log.touch()
    path = fake_installer.put_on_path(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_INSTALLER_LOG", str(log))
    monkeypatch.setattr(
        wheels, "installers", lambda: [wheels.Installer("uv", ("uv", "pip", "install"), ("uv",))]
    )
    monkeypatch.setattr(index, "available", lambda name, *_, **__: [Version(v) for v in ALL])
    return log


def on_python(monkeypatch: pytest.MonkeyPatch, minor: int) -> None:
    monkeypatch.setattr(triton_releases, "python_minor", lambda: minor)


def identities(*specs: str) -> list[str]:
    return [choice.identity for choice in toolchains.resolve(specs).choices]


def failure(spec: str = "3.4.0") -> str:
    """The message when providing a release fails."""
    with pytest.raises(ToolchainError) as caught:
        toolchains.provide(toolchains.resolve([spec]).choices[0])
    assert caught.value.exit_code == Exit.INCOMPLETE
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("spec", ["3.2.0", "3.2", "==3.2.0", "triton==3.2.0", "Triton == 3.2.0"])
def test_an_exact_version_has_one_spelling(fake: Path, spec: str) -> None:
    """However an exact version is written, its identity is the same."""
    assert identities(spec) == ["triton==3.2.0"]


@pytest.mark.parametrize(
    "text, parts",
    [
        ("3.2.0,3.3.0", ["3.2.0", "3.3.0"]),
        (">=3.2,<3.9", [">=3.2,<3.9"]),
        ("installed,>=3.2,!=3.3.0,<3.9,3.1.0", ["installed", ">=3.2,!=3.3.0,<3.9", "3.1.0"]),
        ("==3.2.0,==3.3.0", ["==3.2.0", "==3.3.0"]),
        ("triton>=3.2,<3.4", ["triton>=3.2,<3.4"]),
    ],
)
def test_commas_part_versions_but_not_the_bounds_of_one_specifier(
    text: str, parts: list[str]
) -> None:
    """A comma-separated flag and a PEP 440 specifier can be told apart."""
    assert toolchains.split_specs(text) == parts


def test_a_specifier_names_what_it_leaves_out(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release without a wheel for this Python is a warning when a specifier admits it."""
    monkeypatch.setattr(index, "available", lambda *_, **__: [Version("3.2.0"), Version("3.3.0")])
    on_python(monkeypatch, 13)
    found = toolchains.resolve([">=3.1,<3.3.1"])
    assert [c.version for c in found.choices] == ["3.2.0", "3.3.0"]
    assert found.warnings == (
        "triton 3.1.0 is left out: no wheel for CPython 3.13 (only 3.8 to 3.12)",
    )


def test_an_exact_release_without_a_wheel_is_a_choice_with_a_reason(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a scan can record it as unknown; providing it says the same."""
    on_python(monkeypatch, 13)
    choice = toolchains.resolve(["3.1.0"]).choices[0]
    assert choice.reason == "no wheel for CPython 3.13 (only 3.8 to 3.12)"
    with pytest.raises(ToolchainError, match=r"no wheel for CPython 3\.13"):
        toolchains.provide(choice)


@pytest.mark.parametrize(
    "spec, said",
    [
        ("3.45.0", "there is no triton 3.45.0; the nearest are 3.8.0, 3.9.0"),
        ("2.1.0", "3.0.0 and newer"),
        (">=9", "no release of triton matches >=9"),
        ("tritium", "is no toolchain"),
        ("nvcc==13.1", "unknown toolchain 'nvcc'"),
        ("/nowhere/at/all", "holds no triton"),
    ],
)
def test_what_does_not_exist_is_a_usage_error(fake: Path, spec: str, said: str) -> None:
    """The message names what there is."""
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        toolchains.resolve([spec])


def test_offline_known_releases_resolve_and_specifiers_go_by_the_shipped_table(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No index is needed for an exact known version; a specifier says that none was asked."""

    def unreachable(*_: object, **__: object) -> list[Version]:
        raise wheels.Offline("the package index could not be reached")

    monkeypatch.setattr(index, "available", unreachable)
    assert identities("3.4.0") == ["triton==3.4.0"]
    found = toolchains.resolve([">=3.3,<3.5"])
    assert [c.version for c in found.choices] == ["3.3.0", "3.3.1", "3.4.0"]
    assert "could not be reached" in found.warnings[0]
    with pytest.raises(ToolchainError):
        toolchains.resolve(["3.45.0"])


def test_old_releases_refuse_new_targets() -> None:
    """Each refusal names the first release that knows the target; everything else is known."""
    assert set(triton_releases.refusals(Version("3.1.0"))) == {"sm100", "sm120", "gfx950"}
    assert set(triton_releases.refusals(Version("3.2.0"))) == {"sm100", "sm120"}
    assert triton_releases.refusals(Version("3.3.0")) == {}
    assert (
        triton_releases.refusals(Version("3.2.0"))["sm100"]
        == "Triton 3.2.0 does not know sm100 (from 3.3.0 on)"
    )


def test_a_release_is_installed_once_and_found_again(
    fake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second call starts no installer; the manifest says what is there; the log tells time and
    size."""
    caplog.set_level(logging.INFO, logger="flacheck")
    choice = toolchains.resolve(["3.4.0"]).choices[0]
    first = toolchains.provide(choice)
    second = toolchains.provide(choice)
    assert first == second
    assert (Path(first.path) / "triton" / "__init__.py").is_file()
    assert len(fake.read_text().split()) == 1
    assert caplog.messages[0] == "installing triton 3.4.0 …"
    assert caplog.messages[1].endswith(" MB")
    assert len(caplog.messages) == 2
    (shelf,) = toolchains.installed_toolchains()
    assert shelf.manifest["identity"] == "triton==3.4.0"
    assert shelf.manifest["contains"] == {"triton": "3.4.0"}


def test_a_toolchain_tells_its_worker_and_its_targets(fake: Path) -> None:
    """The guest gets the path and the identity; the refusals and the missing linker carry reasons."""
    toolchain = toolchains.provide(toolchains.resolve(["3.9.0"]).choices[0])
    expected = {"path": [toolchain.path], "identity": "triton==3.9.0", "worker": "triton_worker"}
    assert toolchain.worker_config() == expected
    assert toolchain.targets() == tuple(TARGETS)
    assert (toolchain.knows("sm100"), toolchain.lacks("gfx942")) == (None, None)


@pytest.mark.parametrize(
    "mode, said",
    [
        ("no-space", "no space left on the device"),
        ("no-network", "the package index could not be reached"),
        ("no-permission", "FLACHECK_CACHE_DIR"),
        ("not-found", "finds no such release"),
        ("odd", "the moon is full"),
    ],
)
def test_a_failed_install_says_what_to_do_and_leaves_nothing(
    fake: Path, monkeypatch: pytest.MonkeyPatch, mode: str, said: str
) -> None:
    """One line with the remedy, exit code 3, no folder and no temporary."""
    monkeypatch.setenv("FAKE_INSTALLER", mode)
    assert said in failure()
    assert [p.name for p in (cache.root() / "toolchains").iterdir()] == [".locks"]
    assert list(toolchains.installed_toolchains()) == []


def test_no_installer_at_all_is_said(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither uv nor pip: the message names both and the way out."""
    monkeypatch.setattr(wheels, "installers", list)
    assert "neither uv nor pip" in failure()


def test_a_cache_that_cannot_be_written_is_one_message(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the cache folder should be (root may write anywhere else)."""
    blocked = fake.parent / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(blocked))
    assert "set FLACHECK_CACHE_DIR" in failure()


def test_the_second_installer_is_asked_when_the_first_finds_nothing(
    fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An index that only pip is told of still serves; a full disk is not tried twice."""
    missing = wheels.Installer("uv", ("sh", "-c", "echo 'no version of triton'; exit 1"), ())
    works = wheels.Installer("pip", ("sh", "-c", "true"), ())
    monkeypatch.setattr(wheels, "installers", lambda: [missing, works])
    assert wheels.install(["triton==3.4.0"], tmp_path, what="triton")["installer"] == "pip"
    full = wheels.Installer("uv", ("sh", "-c", "echo 'os error 28'; exit 1"), ())
    monkeypatch.setattr(wheels, "installers", lambda: [full, works])
    with pytest.raises(ToolchainError, match="no space"):
        wheels.install(["triton==3.4.0"], tmp_path, what="triton")


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROVIDE], stdout=subprocess.PIPE, text=True)


def _wait_for(condition: Path, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition.read_text()


def test_kill_9_in_mid_install_leaves_nothing_that_looks_complete(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start sweeps the remains and installs afresh."""
    monkeypatch.setenv("FAKE_INSTALLER", "stuck")
    process = _start()
    _wait_for(fake)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    os.kill(int(fake.read_text()), signal.SIGKILL)
    assert list(toolchains.installed_toolchains()) == []
    folder = cache.root() / "toolchains"
    assert [p.name for p in folder.glob(".tmp-*")] != []
    monkeypatch.delenv("FAKE_INSTALLER")
    toolchains.provide(toolchains.resolve(["3.5.0"]).choices[0])
    assert list(folder.glob(".tmp-*")) == []
    toolchains.provide(toolchains.resolve(["3.4.0"]).choices[0])
    assert [s.manifest["version"] for s in toolchains.installed_toolchains()] == ["3.4.0", "3.5.0"]


def test_two_processes_install_once_and_the_second_says_that_it_waits(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both end well with the same folder."""
    release = fake.with_name("release")
    monkeypatch.setenv("FAKE_INSTALLER", "held")
    monkeypatch.setenv("FAKE_INSTALLER_RELEASE", str(release))
    first = _start()
    _wait_for(fake)
    second = _start()
    assert second.stdout
    waiting = second.stdout.readline()
    release.touch()
    rest = second.communicate()[0]
    first.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting for another flacheck" in waiting
    assert "installing" not in rest
    assert len(fake.read_text().split()) == 1


def test_a_file_edited_in_the_installers_cache_is_not_taken_for_the_release(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linked installs share files with other environments, so the content is compared with its
    RECORD."""
    install = wheels.install

    def edited(wanted: list[str], into: Path, **rest: object) -> dict[str, object]:
        done = install(wanted, into, **rest)  # type: ignore[arg-type]
        (into / "triton" / "__init__.py").write_text("__version__ = 'edited'")
        return done

    monkeypatch.setattr(wheels, "install", edited)
    assert "edited files" in failure()


def test_remove_takes_a_release_and_names_what_is_there(fake: Path) -> None:
    """By identity or version; what is not there is a usage error."""
    toolchains.provide(toolchains.resolve(["3.4.0"]).choices[0])
    toolchains.provide(toolchains.resolve(["3.5.0"]).choices[0])
    assert [s.manifest["version"] for s in toolchains.remove(["triton==3.4.0"])] == ["3.4.0"]
    with pytest.raises(UsageError, match=r"3\.4\.0 is not in .*; there is triton==3\.5\.0"):
        toolchains.remove(["3.4.0"])
    assert [s.manifest["version"] for s in toolchains.installed_toolchains()] == ["3.5.0"]


def test_a_folder_and_a_wheel_with_the_same_content_are_the_same_toolchain(
    fake: Path, tmp_path: Path
) -> None:
    """The identity is a digest of the files that decide, wherever they lie; one byte more changes
    it."""
    build = tmp_path / "src" / "python"
    fake_installer.distribution(build, "triton", "3.6.0")
    wheel = tmp_path / "triton-3.6.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in filter(Path.is_file, build.rglob("*")):
            archive.write(path, path.relative_to(build))
    (by_folder,) = identities(str(build.parent))
    assert identities(str(wheel)) == [by_folder]
    assert by_folder.startswith("triton==3.6.0+local.")
    assert len(by_folder.rpartition(".")[2]) == 8
    (build / "triton" / "_C" / "libtriton.so").write_text("another")
    assert identities(str(build.parent)) != [by_folder]


def test_a_compiler_in_place_is_shown_without_its_neighbours(fake: Path, tmp_path: Path) -> None:
    """Its worker must not see the packages that lie beside it."""
    fake_installer.distribution(tmp_path / "env", "triton", "3.6.0")
    (tmp_path / "env" / "torch").mkdir()
    toolchain = toolchains.provide(toolchains.resolve([str(tmp_path / "env")]).choices[0])
    assert toolchain.origin == "path"
    assert (Path(toolchain.path) / "triton" / "__init__.py").is_file()
    assert not (Path(toolchain.path) / "torch").exists()


def test_an_unbuilt_source_tree_is_refused(fake: Path, tmp_path: Path) -> None:
    """A checkout without its library says so."""
    fake_installer.distribution(tmp_path / "python", "triton", "3.6.0")
    (tmp_path / "python" / "triton" / "_C" / "libtriton.so").unlink()
    with pytest.raises(UsageError, match="not built"):
        toolchains.resolve([str(tmp_path)])


def test_installed_is_a_release_only_when_its_files_are(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edited file, or an install from a URL, is a build of its own."""
    site = tmp_path / "site"
    fake_installer.distribution(site, "triton", "3.6.0")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(
        sys.modules, "triton", raising=False
    )  # another test may have imported the real one
    assert identities("installed") == ["triton==3.6.0"]
    url = site / "triton-3.6.0.dist-info" / "direct_url.json"
    url.write_text("{}")
    assert identities("installed")[0].startswith("triton==3.6.0+local.")
    url.unlink()
    (site / "triton" / "__init__.py").write_text("__version__ = '3.6.0'\nprint()")
    assert identities("installed")[0].startswith("triton==3.6.0+local.")


def test_no_installed_triton_is_incomplete_not_wrong(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says how to get one."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolchainError, match="pip install triton"):
        toolchains.resolve(["installed"])


@pytest.mark.parametrize(
    "name, decides",
    [
        ("triton/language/core.py", True),
        ("triton/_C/libtriton.so", True),
        ("triton/_C/libproton.so", False),
        ("triton/backends/nvidia/bin/ptxas-blackwell", True),
        ("triton/backends/nvidia/bin/cuobjdump", False),
        ("triton/backends/nvidia/lib/libdevice.10.bc", True),
        ("triton/backends/nvidia/include/cuda.h", False),
    ],
)
def test_only_files_that_change_code_count(name: str, decides: bool) -> None:
    """Headers, profilers and dump tools do not make another compiler."""
    assert identity.decides(name) is decides


def test_the_linker_is_wanted_by_old_releases_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.3 and 3.4 refuse linker 14; from 3.5.0 on none is needed."""
    linker = tmp_path / "ld.lld"
    linker.write_text("#!/bin/sh\necho 'Debian LLD 14.0.6 (compatible with GNU linkers)'\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lld, "ROCM", str(tmp_path / "rocm"))
    assert lld.find(Version("3.2.0")).environment == {"TRITON_HIP_LLD_PATH": str(linker)}
    assert "15 or newer" in (lld.find(Version("3.4.0")).problem or "")
    assert lld.find(Version("3.5.0")) == lld.Linker()


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


def test_a_full_disk_while_writing_the_manifest_is_explained(tmp_path: Path) -> None:
    """Our own writes can hit the full disk too."""

    def full(_: Path) -> dict[str, object]:
        raise OSError(28, "No space left on device")

    with pytest.raises(ToolchainError, match="no space left on the device"):
        filling.fill(tmp_path / "toolchains" / "x", full)


@pytest.mark.network
@pytest.mark.slow
def test_a_real_release_installs_and_imports_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.1.0 with what it wants beside it, in an interpreter that sees nothing else."""
    if not 8 <= sys.version_info.minor <= 12:
        pytest.skip("3.1.0 has no wheel for this Python")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    toolchain = toolchains.provide(toolchains.resolve(["3.1.0"]).choices[0])
    code = "import sys; sys.path.insert(0, sys.argv[1]); import triton; print(triton.__version__)"
    command = [sys.executable, "-I", "-S", "-c", code, toolchain.path]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "3.1.0\n"


def test_the_users_constraints_do_not_reach_what_is_installed_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cap on torch in the user's environment says nothing of a folder of flacheck's own."""
    monkeypatch.setenv("PIP_CONSTRAINT", "/there/constraints.txt")
    monkeypatch.setenv("UV_CONSTRAINT", "/there/constraints.txt")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    status, output = wheels.run([sys.executable, "-c", code], "nothing")
    seen = json.loads(output)
    assert status == 0
    # An empty file: of an empty variable pip takes no notice.
    assert seen["PIP_CONSTRAINT"] == os.devnull
    assert "UV_CONSTRAINT" not in seen
    assert seen["PIP_INDEX_URL"] == "https://index.example/simple"
