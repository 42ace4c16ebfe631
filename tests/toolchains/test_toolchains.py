"""Toolchains: specifications, and the toolchains that they resolve to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from flacheck import toolchains
from flacheck.errors import ToolchainError, UsageError
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import connections, index, triton_releases
from tests import fake_installer
from tests.made_toolchains import failure, identities


def on_python(monkeypatch: pytest.MonkeyPatch, minor: int) -> None:
    monkeypatch.setattr(triton_releases, "python_minor", lambda: minor)


@pytest.mark.parametrize("spec", ["3.2.0", "3.2", "==3.2.0", "triton==3.2.0", "Triton == 3.2.0"])
def test_an_exact_version_has_one_spelling(installer_log: Path, spec: str) -> None:
    """However an exact version is written, its identity is the same."""
    assert identities(spec) == ["triton==3.2.0"]


def test_a_folder_takes_no_releases_place(
    installer_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's checkout may hold a folder with a release's name."""
    theirs = tmp_path / "checkout" / "3.2.0" / "triton"
    (theirs / "_C").mkdir(parents=True)
    (theirs / "_C" / "libtriton.so").touch()
    (theirs / "__init__.py").write_text("__version__ = '3.2.0'\n")
    monkeypatch.chdir(tmp_path / "checkout")
    assert identities("3.2.0") == ["triton==3.2.0"]
    assert identities("./3.2.0")[0].startswith("triton==3.2.0+")


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


def test_a_specifier_names_what_it_leaves_out(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release without a wheel for this Python is a warning when a specifier admits it."""
    monkeypatch.setattr(index, "available", lambda *_, **__: [Version("3.2.0"), Version("3.3.0")])
    on_python(monkeypatch, 13)
    resolution = toolchains.resolve([">=3.1,<3.3.1"])
    assert [c.version for c in resolution.choices] == ["3.2.0", "3.3.0"]
    assert resolution.warnings == (
        "triton 3.1.0 is left out: no wheel for CPython 3.13 (only 3.8 to 3.12)",
    )


def test_an_exact_release_without_a_wheel_is_a_choice_with_a_reason(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan records it as unknown, and providing it gives the same reason."""
    on_python(monkeypatch, 13)
    choice = toolchains.resolve(["3.1.0"]).choices[0]
    assert choice.reason == "no wheel for CPython 3.13 (only 3.8 to 3.12)"
    with pytest.raises(ToolchainError, match=r"no wheel for CPython 3\.13"):
        toolchains.provide(choice)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("3.45.0", "there is no triton 3.45.0; the nearest are 3.8.0, 3.9.0"),
        ("2.1.0", "3.0.0 and newer"),
        (">=9", "no release of triton matches >=9"),
        ("tritium", "is not a toolchain"),
        ("hipcc==6.0", "unknown toolchain 'hipcc'"),
        ("nvcc==12.4", "no release of nvcc matches ==12.4.*"),
        ("nvcc==13.0.1", "there is no nvcc 13.0.1"),
        ("/nowhere/at/all", "holds no triton"),
    ],
)
def test_what_does_not_exist_is_a_usage_error(installer_log: Path, spec: str, message: str) -> None:
    """The message names what there is."""
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        toolchains.resolve([spec])


def test_a_toolchain_tells_its_worker_and_its_targets(installer_log: Path) -> None:
    """The guest gets the path and the identity; the refusals and the missing linker carry reasons."""
    toolchain = toolchains.provide(toolchains.resolve(["3.9.0"]).choices[0])
    config = {"path": [toolchain.path], "identity": "triton==3.9.0", "worker": "triton_worker"}
    assert toolchain.worker_config() == config
    assert toolchain.targets() == tuple(TARGETS)
    assert (toolchain.skip_reason("sm100"), toolchain.missing_tool("gfx942")) == (None, None)


def test_remove_takes_a_release_and_names_what_is_there(installer_log: Path) -> None:
    """A release is removed by identity or version; a missing one is a usage error."""
    toolchains.provide(toolchains.resolve(["3.4.0"]).choices[0])
    toolchains.provide(toolchains.resolve(["3.5.0"]).choices[0])
    assert [s.manifest["version"] for s in toolchains.remove(["triton==3.4.0"])] == ["3.4.0"]
    with pytest.raises(UsageError, match=r"3\.4\.0 is not in .*; there is triton==3\.5\.0"):
        toolchains.remove(["3.4.0"])
    assert [s.manifest["version"] for s in toolchains.installed_toolchains()] == ["3.5.0"]


def test_a_compiler_in_place_is_shown_without_its_neighbours(
    installer_log: Path, tmp_path: Path
) -> None:
    """Its worker must not see the packages beside the compiler."""
    fake_installer.distribution(tmp_path / "env", "triton", "3.6.0")
    (tmp_path / "env" / "torch").mkdir()
    toolchain = toolchains.provide(toolchains.resolve([str(tmp_path / "env")]).choices[0])
    assert toolchain.origin == "path"
    assert (Path(toolchain.path) / "triton" / "__init__.py").is_file()
    assert not (Path(toolchain.path) / "torch").exists()


def test_an_unbuilt_source_tree_is_refused(installer_log: Path, tmp_path: Path) -> None:
    """The message for a checkout without its library gives the reason."""
    fake_installer.distribution(tmp_path / "python", "triton", "3.6.0")
    (tmp_path / "python" / "triton" / "_C" / "libtriton.so").unlink()
    with pytest.raises(UsageError, match="not built"):
        toolchains.resolve([str(tmp_path)])


def test_no_installed_triton_is_incomplete_not_wrong(
    installer_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message gives the command that installs one."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ToolchainError, match="pip install triton"):
        toolchains.resolve(["installed"])


def test_an_installed_triton_is_the_default(
    installer_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a specification the installed Triton compiles, and nothing is fetched."""
    fake_installer.distribution(tmp_path / "site", "triton", "3.6.0")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    resolution = toolchains.resolve([toolchains.DEFAULT_SPEC])
    assert [choice.origin for choice in resolution.choices] == ["installed"]
    assert resolution.warnings == ()


@pytest.fixture
def no_triton(installer_log: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without Triton; the log of the fake installer is returned."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    return installer_log


def test_the_newest_release_is_the_default_without_a_triton(no_triton: Path) -> None:
    """The warning names the release and the place from which it comes."""
    resolution = toolchains.resolve([toolchains.DEFAULT_SPEC])
    (choice,) = resolution.choices
    assert (choice.identity, choice.origin) == ("triton==3.9.0", "cache")
    warning = "no triton is installed: taking its newest release, triton==3.9.0, "
    assert resolution.warnings == (f"{warning}which is fetched into flacheck's cache",)
    assert no_triton.read_text() == ""
    toolchains.provide(choice)
    cached = toolchains.resolve([toolchains.DEFAULT_SPEC])
    assert cached.warnings == (f"{warning}from flacheck's cache",)


def test_offline_the_default_is_the_newest_release_of_the_cache(no_triton: Path) -> None:
    """With an empty cache the error names the option to leave out and the package to install."""
    with connections.of_indexes(offline=True):
        message = "--offline forbids a download: leave it out once, or `pip install triton`"
        with pytest.raises(ToolchainError, match=message):
            toolchains.resolve([toolchains.DEFAULT_SPEC])
    for version in ("3.2.0", "3.5.0"):
        toolchains.provide(toolchains.resolve([version]).choices[0])
    with connections.of_indexes(offline=True):
        resolution = toolchains.resolve([toolchains.DEFAULT_SPEC])
    assert [choice.version for choice in resolution.choices] == ["3.5.0"]


@pytest.mark.network
@pytest.mark.slow
def test_a_real_release_installs_and_imports_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.1.0 works with its requirements beside it, in an interpreter without other packages."""
    if not 8 <= sys.version_info.minor <= 12:
        pytest.skip("3.1.0 has no wheel for this Python")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path))
    toolchain = toolchains.provide(toolchains.resolve(["3.1.0"]).choices[0])
    code = "import sys; sys.path.insert(0, sys.argv[1]); import triton; print(triton.__version__)"
    command = [sys.executable, "-I", "-S", "-c", code, toolchain.path]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "3.1.0\n"


def test_a_release_that_was_changed_after_its_installation_is_refused(installer_log: Path) -> None:
    """The keys of its cells would name the unchanged release as their compiler."""
    toolchain = toolchains.provide(toolchains.resolve(["3.9.0"]).choices[0])
    folder = Path(toolchain.path)
    file = next(path for path in sorted(folder.rglob("*.py")) if "triton" in path.parts)
    text = file.read_text()
    file.write_text(text + "# one more line\n")
    assert "were changed after its installation; run `flacheck toolchain remove" in failure("3.9.0")
    file.write_text(text)
    assert toolchains.provide(toolchains.resolve(["3.9.0"]).choices[0]).path == toolchain.path


def test_an_identity_is_never_a_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store from elsewhere cannot make flacheck load a compiler from a folder."""
    (here / "triton==3.2.0" / "triton").mkdir(parents=True)
    monkeypatch.setattr(index, "available", lambda *_, **__: [Version("3.2.0")])
    (choice,) = toolchains.resolve(["triton==3.2.0"]).choices
    assert choice.version == "3.2.0"
    with pytest.raises(UsageError, match="is not a toolchain"):
        toolchains.resolve(["triton==3.2.0/triton"])
