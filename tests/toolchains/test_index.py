"""Versions in package indexes, as the installed pip lists them, and indexes that do not answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.cli import main
from flacheck.engine.package_builds import provide_package
from flacheck.errors import ToolchainError, UsageError
from flacheck.source.packages import installing
from flacheck.toolchains import (
    cache,
    connections,
    index,
    index_settings,
    nvcc_releases,
    triton_releases,
    wheels,
)
from tests.package_index import Index, Page, forked_pip, refused, served
from tests.tables.settings.test_settings import write_user_settings

PAGE = f"{cache.python_tag()}:here"


@pytest.fixture
def installed_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index as the only source of the installed pip, and an empty cache."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("HOME", str(tmp_path))
    pip = wheels.Installer("pip", (), (sys.executable, "-m", "pip"))
    monkeypatch.setattr(wheels, "installers", lambda: [pip])
    with served() as index_server:
        use(monkeypatch, index_server.url)
        yield index_server


@pytest.fixture
def server(installed_pip: Index, monkeypatch: pytest.MonkeyPatch) -> Index:
    """The same index; pip is forked, and all its settings are variables."""
    monkeypatch.setattr(wheels, "run", forked_pip)
    monkeypatch.setattr(index_settings, "pip_options", lambda _: {})
    return installed_pip


def use(monkeypatch: pytest.MonkeyPatch, *indexes: str, links: tuple[str, ...] = ()) -> None:
    """Make these the sources of the user's configuration."""
    connections.forget()
    monkeypatch.setenv("PIP_INDEX_URL", indexes[0])
    # pip ignores an empty variable and would use the system's configuration file.
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", " ".join(indexes[1:]) or indexes[0])
    monkeypatch.setenv("PIP_FIND_LINKS", " ".join(links) or os.devnull)


def versions_of(name: str = "triton", **more: object) -> list[str]:
    return [str(version) for version in index.available(name, **more)]  # type: ignore[arg-type]


def wheel(version: str, tag: str = "py3-none-any") -> str:
    return f"triton-{version}-{tag}.whl"


def test_versions_come_from_the_json_of_the_index(installed_pip: Index) -> None:
    """Prereleases, local versions and other Pythons' wheels are left out."""
    installed_pip.lists(
        "triton",
        wheel("3.9.0"),
        wheel("3.8.0rc1"),
        wheel("3.7.0+cpu"),
        wheel("3.6.0", "cp39-cp39-manylinux_2_17_x86_64"),
        wheel("3.4.0"),
        "triton-3.3.0.tar.gz",
        "README.txt",
    )
    assert versions_of() == ["3.3.0", "3.4.0", "3.9.0"]


def test_a_yanked_release_is_not_listed(server: Index) -> None:
    """A yanked file (PEP 592) counts for nothing."""
    server.lists("triton", wheel("3.9.0"), yanked="broken")
    with pytest.raises(wheels.NotFound):
        versions_of()


def test_a_wheel_of_another_python_is_listed_for_that_python(server: Index) -> None:
    """`python` selects the tags and the bound on Python."""
    machine = os.uname().machine
    server.lists("triton", wheel("3.6.0", f"cp313-cp313-manylinux_2_17_{machine}"))
    assert versions_of(python="3.13") == ["3.6.0"]
    server.lists("triton", wheel("3.7.0"), **{"requires-python": ">=3.13"})
    assert versions_of(python="3.14") == ["3.7.0"]
    with pytest.raises(wheels.NotFound, match="no such release for this Python"):
        index.available("triton", "3.12")


def test_a_folder_of_wheels_and_an_index_of_files_are_read(
    server: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """find-links, and `file:` indexes."""
    (tmp_path / wheel("3.1.0")).touch()
    project = tmp_path / "simple" / "triton"
    project.mkdir(parents=True)
    (project / "index.html").write_text(f"<a href='../{wheel('3.2.0')}'>x</a>")
    server.lists("triton", wheel("3.3.0"))
    use(monkeypatch, server.url, (tmp_path / "simple").as_uri(), links=(str(tmp_path),))
    assert versions_of() == ["3.1.0", "3.2.0", "3.3.0"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(status=403), "403 Client Error: Forbidden"),
        (Page(b"log in, please", "text/plain"), "Content-Type: text/plain"),
    ],
)
def test_an_answer_of_some_indexes_is_incomplete_and_not_kept(
    server: Index, monkeypatch: pytest.MonkeyPatch, page: Page, reason: str
) -> None:
    """The versions of the other index count, and the next look-up reads both again."""
    with served() as other:
        other.lists("triton", wheel("3.8.0"))
        server.pages["/simple/triton/"] = page
        use(monkeypatch, server.url.replace("//", "//u:secret@"), other.url)
        with pytest.raises(index.PartialAnswer, match=reason) as error:
            versions_of()
        assert error.value.versions == [Version("3.8.0")]
        assert "secret" not in str(error.value)
        assert error.value.exit_code == 3
        server.lists("triton", wheel("3.9.0"))
        assert versions_of() == ["3.8.0", "3.9.0"]


def test_a_refused_port_is_tried_once(
    tmp_path: Path, server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further look-ups fail without starting an installer, and nothing is kept."""
    with refused() as url:
        use(monkeypatch, url)
        with pytest.raises(wheels.Offline, match="Connection refused"):
            versions_of()
    monkeypatch.setattr(wheels, "run", lambda *_: pytest.fail("an installer runs"))
    for name in ("torch", "nvidia-cuda-nvcc"):
        with pytest.raises(wheels.Offline, match="no package index answers"):
            versions_of(name)
    assert not (tmp_path / "cache" / "index").exists()


def test_an_index_without_the_project_is_an_answer(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project in no index is NotFound, unless some index failed, as that one may have it."""
    with pytest.raises(wheels.NotFound):
        versions_of()
    server.pages["/simple/triton/"] = Page(status=403)
    with pytest.raises(wheels.Offline, match="403 Client Error: Forbidden"):
        versions_of()


@pytest.mark.slow
def test_a_release_that_some_index_lists_exists(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release in only some indexes is unknown (exit 3) if another index fails."""
    server.lists("triton", wheel("3.99.0"))
    with refused() as url:
        use(monkeypatch, url, server.url)
        assert triton_releases.exact(Version("3.99.0")).reason is None
        for unknown_release in (
            lambda: triton_releases.exact(Version("3.98.0")),
            lambda: triton_releases.matching(SpecifierSet("==3.98.*")),
            lambda: nvcc_releases.exact(Version("13.98.1")),
            lambda: nvcc_releases.matching(SpecifierSet("==13.98.*")),
        ):
            with pytest.raises(ToolchainError, match="did not answer"):
                unknown_release()


def test_an_incomplete_answer_leaves_no_known_release_out(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest release is that of the shipped table, and a warning names the index."""
    server.lists("triton", wheel("3.8.0"))
    with refused() as url:
        use(monkeypatch, url, server.url)
        resolution = triton_releases.matching(SpecifierSet(">=3.6"))
    newest = max(triton_releases.known_releases(), key=Version)
    assert resolution.choices[-1].version == newest
    assert [each for each in resolution.warnings if "did not answer" in each]
    assert not [each for each in resolution.warnings if "left out" in each]


def test_an_earlier_answer_serves_beside_an_incomplete_one(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is joined with the versions that some indexes list today."""
    cache.write_json("index/triton.json", {PAGE: {"time": 0, "versions": ["3.9.0"]}})
    server.lists("triton", wheel("3.8.0"))
    with refused() as url:
        use(monkeypatch, url, server.url)
        assert versions_of() == ["3.8.0", "3.9.0"]


def test_a_package_is_only_missing_where_all_indexes_answer(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it cannot be installed today: exit 3."""

    def not_found(*_: object) -> None:
        raise wheels.NotFound("cannot install toy 1.0: pip finds no such release")

    monkeypatch.setattr(installing, "from_index", not_found)
    server.lists("toy", "toy-2.0-py3-none-any.whl")
    with refused() as url:
        use(monkeypatch, url, server.url)
        with pytest.raises(index.PartialAnswer):
            provide_package("toy==1.0")
    use(monkeypatch, server.url)
    with pytest.raises(UsageError, match=r"there is no toy 1\.0; the nearest are 2\.0"):
        provide_package("toy==1.0")


def test_versions_are_listed_once_a_day_and_again_with_refresh(server: Index) -> None:
    """A complete listing is kept; within one command --refresh reads it once."""
    server.lists("triton", wheel("3.8.0"))
    assert versions_of() == versions_of()
    server.lists("triton", wheel("3.8.0"), wheel("3.9.0"))
    assert versions_of() == ["3.8.0"]
    with connections.of_indexes(refresh=True):
        assert versions_of() == versions_of() == ["3.8.0", "3.9.0"]
    assert {path for path, _ in server.requests} == {"/simple/triton/"}


def test_offline_reads_no_index(server: Index) -> None:
    """An old listing serves; without one, the error names --offline."""
    with connections.of_indexes(offline=True):
        with pytest.raises(wheels.Offline, match="--offline"):
            versions_of()
        cache.write_json("index/triton.json", {PAGE: {"time": 0, "versions": ["3.9.0"]}})
        assert versions_of() == ["3.9.0"]
    assert server.requests == []


def test_offline_only_takes_releases_of_the_cache(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other releases are left out with one warning; if none is left, the warning is the error."""
    monkeypatch.setattr(triton_releases, "list_cached", lambda: [Version("3.7.0")])
    with connections.of_indexes(offline=True):
        resolution = triton_releases.matching(SpecifierSet(">=3.6,<3.9"))
        assert [choice.version for choice in resolution.choices] == ["3.7.0"]
        (left_out,) = [each for each in resolution.warnings if "left out" in each]
        assert "3.6.0, 3.7.1, 3.8.0 left out" in left_out
        with pytest.raises(ToolchainError, match="--offline forbids an installation"):
            triton_releases.matching(SpecifierSet("==3.9.*"))


@pytest.mark.parametrize("place", ["option", "variable", "setting"])
def test_offline_is_an_option_a_variable_and_a_setting(
    server: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A release that only the index could list is unknown: exit 3, and no request."""
    words = ["toolchain", "install", "3.98.0"]
    monkeypatch.chdir(tmp_path)
    if place == "option":
        words.append("--offline")
    elif place == "variable":
        monkeypatch.setenv("FLACHECK_OFFLINE", "1")
    else:
        write_user_settings(tmp_path, "offline = true\n", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["flacheck", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3
    assert server.requests == []
