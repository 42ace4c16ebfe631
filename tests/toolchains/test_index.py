"""Versions in package indexes: JSON, HTML, folders, and indexes that answer in part or not at all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    index_pages,
    index_sources,
    nvcc_releases,
    triton_releases,
    wheels,
)
from flacheck.toolchains.index_sources import Sources
from tests.package_index import Index, Page, refused, served
from tests.tables.settings.test_settings import write_user_settings

PAGE = f"{cache.python_tag()}:here:wheels"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index as the only source, and an empty cache."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(wheels, "installers", lambda: [wheels.Installer("pip", (), ("pip",))])
    with served() as index_server:
        use(monkeypatch, index_server.url)
        yield index_server


def use(monkeypatch: pytest.MonkeyPatch, *indexes: str, links: tuple[str, ...] = ()) -> None:
    """Make these the sources of the user's configuration."""
    connections.forget()
    sources = Sources(indexes, links)
    monkeypatch.setattr(index_sources, "read", lambda pip: sources)


def listed(name: str = "triton", **more: object) -> list[str]:
    return [str(version) for version in index.available(name, **more)]  # type: ignore[arg-type]


def wheel(version: str, tag: str = "py3-none-any") -> str:
    return f"triton-{version}-{tag}.whl"


def test_versions_come_from_the_json_of_the_index(server: Index) -> None:
    """Prereleases, local versions, yanked files and other Pythons' wheels are left out."""
    server.lists(
        "triton",
        wheel("3.9.0"),
        wheel("3.8.0rc1"),
        wheel("3.7.0+cpu"),
        wheel("3.6.0", "cp39-cp39-manylinux_2_17_x86_64"),
        wheel("3.4.0"),
        "triton-3.3.0.tar.gz",
        "README.txt",
    )
    assert listed() == ["3.4.0", "3.9.0"]
    assert listed(binary_only=False) == ["3.3.0", "3.4.0", "3.9.0"]
    assert [path for path, _ in server.requests] == ["/simple/triton/", "/simple/triton/"]


def test_a_wheel_of_another_python_is_listed_for_that_python(server: Index) -> None:
    """`python` selects the tags and the bound on Python."""
    machine = os.uname().machine
    server.lists("triton", wheel("3.6.0", f"cp313-cp313-manylinux_2_17_{machine}"))
    assert listed(python="3.13") == ["3.6.0"]
    server.lists("triton", wheel("3.7.0"), **{"requires-python": ">=3.13"})
    assert listed(python="3.14") == ["3.7.0"]
    with pytest.raises(wheels.NotFound, match="no such release for this Python"):
        index.available("triton", "3.12")


def test_a_yanked_release_is_not_listed(server: Index) -> None:
    """PEP 592."""
    server.lists("triton", wheel("3.9.0"), yanked="broken")
    with pytest.raises(wheels.NotFound):
        listed()


def test_an_index_of_html_alone_is_read(server: Index) -> None:
    """PEP 503, with its bounds on Python, a base and relative links."""
    text = (
        "<!DOCTYPE html><base href='../../files/'>"
        "<a href='triton-3.8.0-py3-none-any.whl#sha256=1'>x</a>"
        "<a href='triton-3.7.0-py3-none-any.whl' data-requires-python='&lt;3'>x</a>"
        "<a href='triton-3.6.0-py3-none-any.whl' data-yanked=''>x</a><a>no link</a>"
    )
    server.pages["/simple/triton/"] = Page(text.encode(), "text/html")
    assert listed() == ["3.8.0"]


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
    assert listed() == ["3.1.0", "3.2.0", "3.3.0"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(status=403), r"403 Forbidden"),
        (Page(status=503), r"503 Service Unavailable"),
        (Page(b"{" * 100, sent=10), r"the answer ended after 10 bytes"),
        (Page(b'{"files": [{"filename": "tri'), r"not a page of PEP 691"),
        (Page(b"log in, please", "text/plain"), r"the page is text/plain, not an index's"),
    ],
)
def test_an_answer_of_some_indexes_is_incomplete_and_not_kept(
    server: Index, monkeypatch: pytest.MonkeyPatch, page: Page, reason: str
) -> None:
    """Another index answers; the next look-up reads both again."""
    with served() as other:
        other.lists("triton", wheel("3.8.0"))
        server.pages["/simple/triton/"] = page
        use(monkeypatch, server.url.replace("//", "//u:secret@"), other.url)
        with pytest.raises(index.PartialAnswer, match=reason) as error:
            listed()
        assert error.value.versions == [Version("3.8.0")]
        assert "secret" not in str(error.value)
        assert error.value.exit_code == 3
        server.lists("triton", wheel("3.9.0"))
        assert listed() == ["3.8.0", "3.9.0"]


def test_a_refused_port_is_tried_once(
    tmp_path: Path, server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each further look-up fails at once, with the same reason; nothing is kept."""
    tried = []
    fetch = index_pages.fetch

    def fetch_and_count(url: str, *rest: Any) -> Any:
        tried.append(url)
        return fetch(url, *rest)

    monkeypatch.setattr(index_pages, "fetch", fetch_and_count)
    with refused() as url:
        use(monkeypatch, url)
        began = time.monotonic()
        for name in ("triton", "torch", "nvidia-cuda-nvcc"):
            with pytest.raises(wheels.Offline, match="Connection refused"):
                listed(name)
        assert tried == [f"{url}/triton/"]
        assert time.monotonic() - began < 5
    assert not (tmp_path / "cache" / "index").exists()


def test_a_host_that_does_not_answer_is_tried_once(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time-out is a sign of offline, too."""
    monkeypatch.setattr(index_pages, "TIMEOUT", 0.1)
    server.pages["/simple/triton/"] = Page(wait=0.5)
    for _ in range(2):
        with pytest.raises(wheels.Offline, match="timed out"):
            listed()
    assert len(server.requests) == 1


def test_credentials_of_the_url_are_sent(
    server: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of the netrc file as well; they do not reach another host by a redirect."""
    server.lists("triton", wheel("3.8.0"))
    use(monkeypatch, server.url.replace("//", "//user:pa%20ss@"))
    assert listed() == ["3.8.0"]
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password word\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    use(monkeypatch, server.url)
    with connections.of_indexes(refresh=True):
        assert listed() == ["3.8.0"]
    sent = [credentials for _, credentials in server.requests]
    assert sent == ["Basic dXNlcjpwYSBzcw==", "Basic bWU6d29yZA=="]


def test_an_index_without_the_project_is_an_answer(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in any index is NotFound; an index that did not answer may have it."""
    with pytest.raises(wheels.NotFound):
        listed()
    server.pages["/simple/triton/"] = Page(status=403)
    with pytest.raises(wheels.Offline, match="403 Forbidden"):
        listed()


def test_a_release_that_some_index_lists_exists(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the others lack is unknown (exit 3), and not a release that does not exist."""
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
        assert listed() == ["3.8.0", "3.9.0"]


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
    assert listed() == listed()
    server.lists("triton", wheel("3.8.0"), wheel("3.9.0"))
    assert listed() == ["3.8.0"]
    with connections.of_indexes(refresh=True):
        assert listed() == listed() == ["3.8.0", "3.9.0"]
    assert len(server.requests) == 2


def test_offline_reads_no_index(server: Index) -> None:
    """An old listing serves; without one, the error names --offline."""
    with connections.of_indexes(offline=True):
        with pytest.raises(wheels.Offline, match="--offline"):
            listed()
        cache.write_json("index/triton.json", {PAGE: {"time": 0, "versions": ["3.9.0"]}})
        assert listed() == ["3.9.0"]
    assert server.requests == []


def test_offline_only_takes_releases_of_the_cache(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are left out in one warning; if none is left, that is the error."""
    monkeypatch.setattr(triton_releases, "list_cached", lambda: [Version("3.7.0")])
    with connections.of_indexes(offline=True):
        resolution = triton_releases.matching(SpecifierSet(">=3.6,<3.9"))
        assert [choice.version for choice in resolution.choices] == ["3.7.0"]
        (left_out,) = [each for each in resolution.warnings if "left out" in each]
        assert "3.6.0, 3.7.1, 3.8.0 left out" in left_out
        with pytest.raises(ToolchainError, match="--offline forbids an installation"):
            triton_releases.matching(SpecifierSet("==3.9.*"))


def test_the_users_configuration_of_pip_and_uv_names_the_sources() -> None:
    """A variable precedes the section of the command, which precedes the global one."""
    options = index_sources.parse_pip_configuration(
        ":env:.find-links='/wheels /more'\n"
        "global.index-url='https://global.example/simple'\n"
        "install.index-url='https://install.example/simple/'\n"
        "global.extra-index-url='file:///a/simple\\nhttps://b.example/simple'\n"
        "global.trusted-host='b.example'\nglobal.cert='/certificates.pem'\n"
        "download.proxy='http://not.example'\nnot a line\nglobal.odd=[\n"
    )
    variables = {"UV_INDEX": "mine=https://uv.example/simple", "UV_FIND_LINKS": "/uv"}
    assert index_sources.combine(options, variables) == Sources(
        indexes=(
            "https://install.example/simple",
            "file:///a/simple",
            "https://b.example/simple",
            "https://uv.example/simple",
        ),
        links=("/wheels", "/more", "/uv"),
        trusted_hosts=("b.example",),
        certificates="/certificates.pem",
    )
    assert index_sources.combine({"no-index": "true"}, {}).all == ()
    only_uv = index_sources.combine({}, {"UV_DEFAULT_INDEX": "https://uv.example/simple"})
    assert only_uv.indexes == ("https://uv.example/simple",)


def test_pip_prints_its_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and the variables of the user, as the installed pip reads them."""
    configuration = tmp_path / "pip.conf"
    configuration.write_text(
        "[global]\nextra-index-url =\n  https://a.example\n  https://b.example\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("PIP_INDEX_URL", "https://c.example/simple")
    pip = [each for each in wheels.installers() if each.name == "pip"]
    if not pip:
        pytest.skip("pip is not installed")
    sources = index_sources.read(pip[0].pip)
    assert sources.indexes[0] == "https://c.example/simple"
    assert {"https://a.example", "https://b.example"} <= set(sources.indexes)


def test_an_installation_leaves_out_the_index_that_does_not_answer(
    server: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip receives the sources that answer; uv, which reads other settings, is left out."""
    script = 'echo "$PIP_INDEX_URL $PIP_EXTRA_INDEX_URL $PIP_FIND_LINKS" > "$SEEN"'
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    uv = wheels.Installer("uv", ("sh", "-c", "exit 1"), ())
    pip = wheels.Installer("pip", ("sh", "-c", script, "sh"), ("pip",))
    monkeypatch.setattr(wheels, "installers", lambda: [uv, pip])
    server.lists("triton", wheel("3.8.0"))
    with refused() as url:
        use(monkeypatch, url, server.url, links=("/folder",))
        with pytest.raises(index.PartialAnswer):
            listed()
        wheels.install(["triton==3.8.0"], tmp_path / "into", what="triton 3.8.0")
    assert (tmp_path / "seen").read_text().split() == [server.url, server.url, "/folder"]


def test_without_any_index_an_installation_asks_the_cache_of_uv_and_the_folders(
    server: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both fail at once, and the error names the reason: exit 3."""
    seen = tmp_path / "seen"
    monkeypatch.setenv("SEEN", str(seen))
    script = 'echo "$0 $* $PIP_NO_INDEX" >> "$SEEN"; echo "No matching distribution"; exit 1'
    installers = [
        wheels.Installer(name, ("sh", "-c", script, name), ("pip",)) for name in ("uv", "pip")
    ]
    monkeypatch.setattr(wheels, "installers", lambda: installers)
    use(monkeypatch, server.url, links=("/folder",))
    error = pytest.raises(wheels.Offline, match="not in the cache, and --offline")
    with connections.of_indexes(offline=True), error:
        wheels.install(["toy"], tmp_path / "into", what="toy")
    uv, pip = seen.read_text().splitlines()
    assert "--offline" in uv
    assert pip.endswith(" 1")


def test_an_installer_that_waits_for_dead_hosts_is_ended(
    server: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its first report of progress the indexes are tried; if none answers, it ends."""
    monkeypatch.setattr(wheels, "HEARTBEAT", 0.05)
    command = [sys.executable, "-c", "import time; time.sleep(30)"]
    with refused() as url:
        use(monkeypatch, url)
        began = time.monotonic()
        code, output = wheels.run(command, "toy")
    assert (code, "timed out" in output) == (1, True)
    assert time.monotonic() - began < 10


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
