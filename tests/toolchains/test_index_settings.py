"""The index settings of pip and uv, each given to the other."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

from flacheck.toolchains import connections, index_settings, wheels
from tests.package_index import Page, served

PIP = (sys.executable, "-m", "pip")


def test_a_variable_of_pip_precedes_its_sections() -> None:
    """The section of the command precedes the global section."""
    options = index_settings.parse_pip_configuration(
        ":env:.find-links='/wheels /more'\n"
        "global.index-url='https://global.example/simple'\n"
        "install.index-url='https://install.example/simple'\n"
        "global.find-links='/other'\nglobal.cert='/certificates.pem'\n"
        "download.proxy='http://not.example'\nnot a line\nglobal.odd=[\n"
    )
    assert options == {
        "find-links": "/wheels /more",
        "index-url": "https://install.example/simple",
        "cert": "/certificates.pem",
    }


def test_pip_receives_the_indexes_of_uv() -> None:
    """The index of pip's own configuration precedes the default index of uv."""
    of_uv = {
        "UV_DEFAULT_INDEX": "main=https://uv.example/simple",
        "UV_INDEX": "mine=https://b.example/simple?x=1",
        "UV_FIND_LINKS": "/uv,/more",
        "UV_KEYRING_PROVIDER": "subprocess",
    }
    assert index_settings.for_pip({}, of_uv) == {
        "PIP_INDEX_URL": "https://uv.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://b.example/simple?x=1",
        "PIP_FIND_LINKS": "/uv /more",
        "PIP_KEYRING_PROVIDER": "subprocess",
    }
    of_pip = {"index-url": "https://pip.example", "extra-index-url": "https://a.example"}
    assert index_settings.for_pip(of_pip | {"keyring-provider": "import"}, of_uv) == {
        "PIP_EXTRA_INDEX_URL": "https://a.example https://b.example/simple?x=1",
        "PIP_FIND_LINKS": "/uv /more",
    }
    assert index_settings.for_pip(of_pip, {}) == {}


def test_uv_receives_the_index_of_pip(tmp_path: Path) -> None:
    """An index or a variable of uv itself takes precedence."""
    authorities = tmp_path / "ca.pem"
    authorities.touch()
    of_pip = {
        "index-url": "https://pip.example/simple",
        "proxy": "http://proxy.example:3128",
        "cert": str(authorities),
        "client-cert": "/client.pem",
    }
    assert index_settings.for_uv(of_pip, {"https_proxy": "http://mine.example"}) == {
        "UV_DEFAULT_INDEX": "https://pip.example/simple",
        "HTTP_PROXY": "http://proxy.example:3128",
        "SSL_CERT_FILE": str(authorities),
        "SSL_CLIENT_CERT": "/client.pem",
    }
    assert index_settings.for_uv(of_pip, {"UV_INDEX_URL": "https://uv.example"}) == {}
    no_index = {"no-index": "true", "find-links": "/a /b"}
    assert index_settings.for_uv(no_index, {}) == {"UV_NO_INDEX": "1", "UV_FIND_LINKS": "/a,/b"}


def test_offline_pip_reads_local_folders_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of links on another machine is left out."""
    monkeypatch.setenv("PIP_FIND_LINKS", "https://a.example/links /srv/wheels")
    with connections.of_indexes(offline=True):
        variables = index_settings.variables(PIP)
    assert (variables["PIP_NO_INDEX"], variables["PIP_FIND_LINKS"]) == ("1", "/srv/wheels")


def test_pips_settings_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that changes its variables between two calls installs from the new index."""
    for url in ("https://a.example/simple", "https://b.example/simple"):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        assert index_settings.pip_options(PIP)["index-url"] == url


def make_wheel(name: str) -> bytes:
    """Return a wheel with one module."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "x = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pip", "uv"])
def test_an_installation_reads_the_index_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Both installers read the index in pip's file and check the hash of the wheel."""
    for variable in list(os.environ):
        if variable.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    commands = {
        "pip": (*PIP, "install", "--no-compile", "--disable-pip-version-check"),
        "uv": ("uv", "pip", "install", "--python", sys.executable),
    }
    installer = wheels.Installer(name, commands[name], PIP)
    monkeypatch.setattr(wheels, "installers", lambda: [installer])
    content = make_wheel("toy")
    with served() as server:
        server.pages["/toy-1.0-py3-none-any.whl"] = Page(content, "application/zip")
        text = f"[global]\nindex-url = {server.url}\nextra-index-url =\nfind-links =\n"
        (tmp_path / "pip.conf").write_text(text)
        for digest, is_right in (("0" * 64, False), (hashlib.sha256(content).hexdigest(), True)):
            server.lists("toy", "toy-1.0-py3-none-any.whl", hashes={"sha256": digest})
            if not is_right:
                with pytest.raises(wheels.ToolchainError):
                    wheels.install(["toy"], tmp_path / "wrong", what="toy 1.0")
                monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-anew"))
                continue
            manifest = wheels.install(["toy"], tmp_path / "into", what="toy 1.0")
            assert (manifest["installer"], manifest["contains"]) == (name, {"toy": "1.0"})
