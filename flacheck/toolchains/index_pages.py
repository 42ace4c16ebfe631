"""Pages of package indexes: JSON (PEP 691), HTML (PEP 503) and folders of distributions."""

import base64
import http.client
import netrc
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from textwrap import shorten
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import msgspec

from flacheck import files
from flacheck.toolchains.index_sources import NEUTRAL_FOLDER, Sources, is_remote, local_path
from flacheck.version import __version__

# Seconds without a byte after which a host counts as unreachable.
TIMEOUT = 10.0
_JSON = "application/vnd.pypi.simple.v1+json"
_HTML = ("application/vnd.pypi.simple.v1+html", "text/html")
_ACCEPT = f"{_JSON}, {_HTML[0]};q=0.2, {_HTML[1]};q=0.01"
# These statuses mean that the index lacks the distribution.
_HAS_NONE = (404, 410)
# Seconds that a keyring may take: some of them fetch a token.
_KEYRING_TIMEOUT = 30.0
# Characters of a reason in a message.
_REASON = 160


class UnreadPage(Exception):
    """A page that could not be read: `place` without credentials, and the reason.

    `is_unreachable` is true if the host did not answer at all.
    """

    def __init__(self, place: str, reason: str, is_unreachable: bool) -> None:
        self.place = _without_credentials(place)
        self.reason = shorten(reason, _REASON, placeholder=" …")
        self.is_unreachable = is_unreachable
        super().__init__(f"{self.place} did not answer ({self.reason})")


class IndexFile(msgspec.Struct, frozen=True, rename="kebab"):
    """A file of a distribution; its fields are those of PEP 691 and, for `size`, PEP 700."""

    filename: str
    url: str = ""
    requires_python: str | None = None
    yanked: bool | str = False
    core_metadata: bool | dict[str, str] = False
    size: int | None = None


class _Page(msgspec.Struct):
    """The JSON of a project's page."""

    files: list[IndexFile]


def read_project(place: str, name: str, sources: Sources) -> list[IndexFile]:
    """Return the files of a distribution in an index; an empty list if the index lacks it.

    Raises UnreadPage.
    """
    if not is_remote(place):
        return _read_local(local_path(place) / name / "index.html")
    return _read_page(f"{place}/{name}/", sources)


def read_links(place: str, sources: Sources) -> list[IndexFile]:
    """Return the files that a folder holds or a page links to. Raises UnreadPage."""
    if is_remote(place):
        return _read_page(place, sources)
    path = local_path(place)
    if not path.is_dir():
        return _read_local(path)
    try:
        return [IndexFile(each.name, each.as_uri()) for each in path.resolve().iterdir()]
    except OSError as error:
        raise UnreadPage(place, str(error), is_unreachable=False) from None


def why_no_connection(place: str, sources: Sources) -> str | None:
    """Return why the host of an index does not answer; None if it does, whatever the answer."""
    try:
        fetch(f"{place}/pip/", sources, method="HEAD")
    except UnreadPage as error:
        if error.is_unreachable:
            return error.reason
    return None


def _read_local(page: Path) -> list[IndexFile]:
    try:
        text = files.read_text(page, links=True, errors="replace")
        return _parse_html(text, page.absolute().as_uri())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UnreadPage(str(page), str(error), is_unreachable=False) from None


def _read_page(url: str, sources: Sources) -> list[IndexFile]:
    """Return the files on a page, in JSON or HTML."""
    content, content_type, final_url = fetch(url, sources)
    if content_type == _JSON:
        try:
            return msgspec.json.decode(content, type=_Page).files
        except msgspec.DecodeError as error:
            raise UnreadPage(url, f"not a page of PEP 691: {error}", False) from None
    if content_type in _HTML:
        return _parse_html(content.decode(errors="replace"), final_url)
    if not content and not content_type:
        return []
    raise UnreadPage(url, f"the page is {content_type or 'of no type'}, not an index's", False)


def fetch(url: str, sources: Sources, method: str = "GET") -> tuple[bytes, str, str]:
    """Return content, type and final URL; all empty if the server lacks the page."""
    bare = _without_credentials(url)
    headers = {"Accept": _ACCEPT, "User-Agent": f"flacheck/{__version__}"}
    request = urllib.request.Request(bare, headers=headers, method=method)
    credentials = _credentials(url, sources)
    if credentials:
        # A redirect to another host does not receive them.
        request.add_unredirected_header("Authorization", credentials)
    try:
        with _opener(bare, sources).open(request, timeout=TIMEOUT) as response:
            return response.read(), response.headers.get_content_type(), response.url
    except urllib.error.HTTPError as error:
        if error.code in _HAS_NONE:
            return b"", "", bare
        raise UnreadPage(url, f"{error.code} {error.reason}", is_unreachable=False) from None
    except urllib.error.URLError as error:
        raise UnreadPage(url, str(error.reason), is_unreachable=True) from None
    except http.client.IncompleteRead as error:
        reason = f"the answer ended after {len(error.partial)} bytes"
        raise UnreadPage(url, reason, is_unreachable=False) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UnreadPage(url, reason, is_unreachable=isinstance(error, OSError)) from None


def _opener(url: str, sources: Sources) -> urllib.request.OpenerDirector:
    """Return an opener with the proxies and certificates that pip would use."""
    handlers: list[urllib.request.BaseHandler] = []
    if sources.proxy:
        proxies = {"http": sources.proxy, "https": sources.proxy}
        handlers.append(urllib.request.ProxyHandler(proxies))
    context = _context(url, sources)
    handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def _context(url: str, sources: Sources) -> ssl.SSLContext:
    parts = urlsplit(url)
    authorities = sources.certificates
    try:
        if authorities and Path(authorities).is_dir():
            context = ssl.create_default_context(capath=authorities)
        else:
            context = ssl.create_default_context(cafile=authorities)
        if sources.client_certificate:
            context.load_cert_chain(sources.client_certificate)
    except OSError as error:
        reason = f"the certificates {authorities or sources.client_certificate}: {error}"
        raise UnreadPage(url, reason, is_unreachable=False) from None
    # The user's setting `trusted-host` names a host, or a host and a port.
    if parts.hostname in sources.trusted_hosts or parts.netloc in sources.trusted_hosts:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _credentials(url: str, sources: Sources) -> str | None:
    """Return the value of the Authorization header: from a URL, a keyring or the netrc file."""
    parts = urlsplit(url)
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        if sources.has_keyring and parts.password is None:
            password = read_keyring(parts.netloc.rpartition("@")[2], user)
    else:
        user, password = "", ""
        with suppress(OSError, netrc.NetrcParseError):
            entry = netrc.netrc().authenticators(parts.hostname or "")
            if entry:
                user, password = entry[0], entry[2] or ""
    if not user and not password:
        return None
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@lru_cache
def read_keyring(service: str, user: str) -> str:
    """Return the password of a user of a host in the user's keyring; empty if there is none.

    pip and uv run the same program.
    """
    program = shutil.which("keyring")
    if program is None:
        return ""
    try:
        result = subprocess.run(
            [program, "get", service, user],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_KEYRING_TIMEOUT,
            cwd=NEUTRAL_FOLDER,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


class _Links(HTMLParser):
    """The links of a page with the attributes of PEP 503, and the page's base URL."""

    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.links: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes: dict[str, Any] = dict(attrs)
        if tag == "base":
            self.base = self.base or attributes.get("href")
        elif tag == "a" and attributes.get("href"):
            self.links.append(attributes)


def _parse_html(text: str, url: str) -> list[IndexFile]:
    return list(_iterate_links(text, url))


def _iterate_links(text: str, url: str) -> Iterator[IndexFile]:
    parser = _Links()
    parser.feed(text)
    for link in parser.links:
        target = urljoin(parser.base or url, link["href"] or "")
        has_metadata = "data-core-metadata" in link or "data-dist-info-metadata" in link
        yield IndexFile(
            filename=unquote(urlsplit(target).path.rpartition("/")[2]),
            url=target,
            requires_python=link.get("data-requires-python"),
            yanked="data-yanked" in link,
            core_metadata=has_metadata,
        )
