"""Indexes behind a proxy, a private authority, a client certificate or a password."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import ssl
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from flacheck.toolchains import connections, index, index_pages, wheels
from tests.http_proxy import Proxy, serving
from tests.package_index import Index, Page, served

# Variables of the machine that would decide instead of the test's.
_SETTINGS = """
HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
REQUESTS_CA_BUNDLE CURL_CA_BUNDLE SSL_CERT_FILE SSL_CERT_DIR SSL_CLIENT_CERT
""".split()
PIP = wheels.Installer(
    "pip",
    (sys.executable, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"),
    (sys.executable, "-m", "pip"),
)


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Write a user's pip.conf and variables, the only settings; the cache is empty."""
    for name in os.environ:
        if name.startswith(("PIP_", "UV_")) or name in _SETTINGS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(wheels, "installers", lambda: [PIP])
    index_pages.read_keyring.cache_clear()

    def write(variables: dict[str, str] | None = None, **options: str) -> None:
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in options.items()]
        # A system's own file would add indexes.
        text = "\n".join(["[global]", "extra-index-url =", "find-links =", *lines, ""])
        (tmp_path / "pip.conf").write_text(text)
        for name, value in (variables or {}).items():
            monkeypatch.setenv(name, value)
        connections.forget()

    yield write
    connections.forget()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with serving() as running:
        yield running


@pytest.fixture
def plain() -> Iterator[Index]:
    """An index by http."""
    with served() as server:
        server.lists("toy", "toy-1.0-py3-none-any.whl")
        yield server


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA) -> Iterator[Index]:
    """An index by https that requires a client's certificate; no system trusts its authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with served(context) as server:
        server.lists("toy", "toy-1.0-py3-none-any.whl")
        yield server


def listed() -> list[str]:
    return [str(version) for version in index.available("toy")]


@pytest.mark.parametrize("place", ["HTTP_PROXY", "http_proxy", "pip.conf", "PIP_PROXY"])
def test_a_proxy_receives_the_requests(
    configure: Callable[..., None], proxy: Proxy, plain: Index, place: str
) -> None:
    """In a variable of the environment, or in pip's configuration, with its password."""
    url = f"http://me:pa%20ss@{proxy.place}"
    if place == "pip.conf":
        configure(index_url=plain.url, proxy=url)
    else:
        configure({place: url}, index_url=plain.url)
    assert listed() == ["1.0"]
    assert proxy.requests == [f"GET {plain.url}/toy/"]
    assert proxy.credentials == ["Basic " + base64.b64encode(b"me:pa ss").decode()]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["variable", "pip.conf"])
def test_no_proxy_names_hosts_that_are_read_directly(
    configure: Callable[..., None], proxy: Proxy, plain: Index, place: str
) -> None:
    """Where the proxy is named does not matter."""
    url = f"http://{proxy.place}"
    if place == "variable":
        configure({"HTTP_PROXY": url, "NO_PROXY": "127.0.0.1"}, index_url=plain.url)
    else:
        configure({"NO_PROXY": "127.0.0.1"}, index_url=plain.url, proxy=url)
    assert listed() == ["1.0"]
    assert proxy.requests == []


@pytest.mark.slow
def test_a_proxy_that_does_not_answer_is_named(
    configure: Callable[..., None], plain: Index
) -> None:
    """The message has neither its password nor that of the index."""
    with serving() as gone:
        url = f"http://me:secret@{gone.place}"
    configure({"HTTP_PROXY": url}, index_url=plain.url.replace("//", "//you:hidden@"))
    with pytest.raises(wheels.Offline, match="Connection refused") as error:
        listed()
    assert "secret" not in str(error.value)
    assert "hidden" not in str(error.value)


@pytest.mark.slow
def test_a_private_authority_and_a_client_certificate_are_used(
    configure: Callable[..., None],
    proxy: Proxy,
    secure: Index,
    authority: trustme.CA,
    tmp_path: Path,
) -> None:
    """`cert`, `client-cert` and `proxy` of pip.conf, through a tunnel."""
    bundle, client = tmp_path / "ca.pem", tmp_path / "client.pem"
    authority.cert_pem.write_to_path(str(bundle))
    authority.issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(str(client))
    options = {"index_url": secure.url, "proxy": f"http://{proxy.place}"}
    configure(**options, client_cert=str(client))
    with pytest.raises(wheels.Offline, match="CERTIFICATE_VERIFY_FAILED"):
        listed()
    configure(**options, cert=str(bundle))
    with pytest.raises(wheels.Offline):
        listed()
    configure(**options, cert=str(bundle), client_cert=str(client))
    assert listed() == ["1.0"]
    host = secure.url.removeprefix("https://").removesuffix("/simple")
    assert set(proxy.requests) == {f"CONNECT {host}"}
    installer = connections.limits(PIP.pip)
    assert installer["HTTPS_PROXY"] == f"http://{proxy.place}"
    assert installer["SSL_CERT_FILE"] == str(bundle)
    assert installer["SSL_CLIENT_CERT"] == str(client)
    assert installer["UV_DEFAULT_INDEX"] == secure.url


def test_a_missing_file_of_certificates_is_named(
    configure: Callable[..., None], secure: Index, tmp_path: Path
) -> None:
    """The path is in the message."""
    configure(index_url=secure.url, cert=str(tmp_path / "none.pem"))
    with pytest.raises(wheels.Offline, match=r"the certificates .*none\.pem"):
        listed()


@pytest.mark.slow
def test_credentials_in_pip_s_variable_are_sent(
    configure: Callable[..., None], plain: Index
) -> None:
    """`PIP_INDEX_URL` with user and password."""
    configure({"PIP_INDEX_URL": plain.url.replace("//", "//user:pa%3Ass@")})
    assert listed() == ["1.0"]
    expected = "Basic " + base64.b64encode(b"user:pa:ss").decode()
    assert plain.requests == [("/simple/toy/", expected)]


@pytest.mark.parametrize("place", ["pip.conf", "UV_KEYRING_PROVIDER"])
def test_a_keyring_holds_the_password(
    configure: Callable[..., None],
    plain: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    """The program `keyring`, if pip or uv is set to use it and the URL has a user alone."""
    program = tmp_path / "bin" / "keyring"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> "$HOME/calls"\necho token\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    url = plain.url.replace("//", "//user@")
    if place == "pip.conf":
        configure(index_url=url, keyring_provider="subprocess")
    else:
        configure({place: "subprocess"}, index_url=url)
    assert listed() == ["1.0"]
    with connections.of_indexes(refresh=True):
        assert listed() == ["1.0"]
    host = plain.url.removeprefix("http://").removesuffix("/simple")
    assert (tmp_path / "calls").read_text() == f"get {host} user\n"
    expected = "Basic " + base64.b64encode(b"user:token").decode()
    assert [credentials for _, credentials in plain.requests] == [expected, expected]


def test_no_keyring_is_read_without_that_setting(
    configure: Callable[..., None], plain: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keyring may open a window."""
    monkeypatch.setattr(index_pages, "read_keyring", lambda *_: pytest.fail("read"))
    configure(index_url=plain.url.replace("//", "//user@"))
    assert listed() == ["1.0"]


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
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_an_installation_takes_the_same_way(
    configure: Callable[..., None],
    proxy: Proxy,
    plain: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installer: str,
) -> None:
    """uv, which reads no pip.conf, receives its index and its proxy."""
    here = wheels.Installer("uv", ("uv", "pip", "install", "--python", sys.executable), ())
    if installer == "pip":
        here = PIP
    monkeypatch.setattr(wheels, "installers", lambda: [here, PIP])
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    content = make_wheel("toy")
    plain.pages["/toy-1.0-py3-none-any.whl"] = Page(content, "application/zip")
    digest = hashlib.sha256(content).hexdigest()
    plain.lists("toy", "toy-1.0-py3-none-any.whl", hashes={"sha256": digest})
    configure(index_url=plain.url, proxy=f"http://{proxy.place}")
    manifest = wheels.install(["toy"], tmp_path / "into", what="toy 1.0")
    assert (manifest["installer"], manifest["contains"]) == (installer, {"toy": "1.0"})
    assert f"GET {plain.url}/toy/" in proxy.requests
