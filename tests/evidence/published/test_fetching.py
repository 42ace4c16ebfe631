"""Published results from a web server: complete and verified, or not at all."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec import structs

import flacheck
from flacheck import FlacheckError, IncompleteError, UsageError
from flacheck.evidence.published.form import MOST_BYTES, decode_body, decode_header, encode
from tests.evidence.published.test_published import folder as folder


class Site:
    """A server of a folder's files, of which a test may replace some."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pages: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.url = ""

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Yield the server's URL."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.removeprefix("/results/")
                if name in site.redirects:
                    self.send_response(302)
                    self.send_header("Location", site.redirects[name])
                    self.end_headers()
                    return
                file = site.root / name
                if name not in site.pages and not file.is_file():
                    self.send_error(404)
                    return
                body = site.pages.get(name)
                if body is None:
                    body = file.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        serve = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        serve.start()
        try:
            self.url = f"http://127.0.0.1:{server.server_address[1]}/results"
            yield self.url
        finally:
            server.shutdown()
            server.server_close()
            serve.join()


FILE = "flash-linear-attention-0.1.1/usual-triton-3.2.0-sm90.zst"


def _cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").rglob("*.zst"))


def test_results_of_a_url_answer_and_stay_in_the_cache(folder: Path, tmp_path: Path) -> None:
    """The second answer comes from the cache."""
    with Site(folder).serving() as url:
        answer = flacheck.known("flash-linear-attention", results=url)
    assert flacheck.known("flash-linear-attention", results=url) == answer
    assert len(_cached(tmp_path)) == 2


def test_an_update_from_a_url_replaces_what_flacheck_ships(folder: Path, tmp_path: Path) -> None:
    """After an update the newer results are used."""
    with Site(folder).serving() as url:
        manifest = flacheck.update_results(url)
    assert len(manifest.files) == 2
    assert (tmp_path / "cache" / "results" / FILE).is_file()


def _bad_digest(site: Site) -> None:
    content = (site.root / FILE).read_bytes()
    site.pages[FILE] = content[:-1] + bytes([content[-1] ^ 1])


def _oversize(site: Site) -> None:
    site.pages[FILE] = (site.root / FILE).read_bytes() + b"x" * 1000


def _huge_manifest(site: Site) -> None:
    site.pages["manifest.json"] = b" " * (MOST_BYTES + 1)


def _hostile_name(site: Site) -> None:
    manifest = json.loads((site.root / "manifest.json").read_text())
    manifest["files"][0]["file"] = "../../../.bashrc"
    site.pages["manifest.json"] = json.dumps(manifest).encode()


def _name_twice(site: Site) -> None:
    manifest = json.loads((site.root / "manifest.json").read_text())
    manifest["files"] += manifest["files"][:1]
    site.pages["manifest.json"] = json.dumps(manifest).encode()


def _question_twice(site: Site) -> None:
    manifest = json.loads((site.root / "manifest.json").read_text())
    manifest["files"].append({**manifest["files"][0], "file": "a/b.zst"})
    site.pages["manifest.json"] = json.dumps(manifest).encode()


def _equal_cells(site: Site) -> None:
    content = (site.root / FILE).read_bytes()
    body = decode_body(content, "")
    body = structs.replace(body, cells=body.cells[:1] * 60_000)
    content = encode(decode_header(content, ""), body)
    manifest = json.loads((site.root / "manifest.json").read_text())
    (entry,) = (each for each in manifest["files"] if each["file"] == FILE)
    entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    site.pages.update({FILE: content, "manifest.json": json.dumps(manifest).encode()})


def _deep_manifest(site: Site) -> None:
    site.pages["manifest.json"] = b"[" * 100_000


def _older_schema(site: Site) -> None:
    manifest = json.loads((site.root / "manifest.json").read_text())
    manifest["schema"] = "flacheck.results/0"
    site.pages["manifest.json"] = json.dumps(manifest).encode()


def _missing_file(site: Site) -> None:
    site.redirects[FILE] = "/results/nowhere.zst"


def _other_scheme(site: Site) -> None:
    site.redirects["manifest.json"] = "ftp://127.0.0.1/manifest.json"


def _endless(site: Site) -> None:
    site.redirects["manifest.json"] = "/results/manifest.json"


@pytest.mark.parametrize(
    ("spoil", "kind", "message"),
    [
        (_bad_digest, UsageError, "differs from the manifest; nothing was changed"),
        (_oversize, UsageError, "larger than .* bytes; nothing was changed"),
        (_huge_manifest, UsageError, "larger than .* bytes"),
        (_hostile_name, UsageError, "not the name of a file of results"),
        (_name_twice, UsageError, "it lists .*zst, or its question, twice"),
        (_question_twice, UsageError, "it lists a/b.zst, or its question, twice"),
        (_equal_cells, UsageError, "it holds a cell twice"),
        (_deep_manifest, UsageError, "not a manifest of published results"),
        (
            _older_schema,
            UsageError,
            "not a manifest of published results .* reads flacheck.results/1",
        ),
        (_missing_file, IncompleteError, "cannot be read .*; nothing was changed"),
        (_other_scheme, IncompleteError, "cannot be read .*ftp"),
        (_endless, IncompleteError, "cannot be read .*redirect"),
    ],
)
def test_what_a_server_spoils_is_one_error_and_changes_nothing(
    folder: Path, tmp_path: Path, spoil: object, kind: type[FlacheckError], message: str
) -> None:
    """A wrong digest, size or name is one error, and the cache stays empty."""
    site = Site(folder)
    assert callable(spoil)
    spoil(site)
    with site.serving() as url, pytest.raises(kind, match=message):
        flacheck.update_results(url)
    assert _cached(tmp_path) == []


def test_a_redirect_to_another_web_address_is_followed(folder: Path, tmp_path: Path) -> None:
    """A redirect to another web address is followed."""
    site = Site(folder)
    site.redirects[FILE] = "/results/moved.zst"
    site.pages["moved.zst"] = (folder / FILE).read_bytes()
    with site.serving() as url:
        flacheck.update_results(url)
    assert len(_cached(tmp_path)) == 2


def test_a_server_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    """The error names the address of the file."""
    with pytest.raises(IncompleteError, match=r"127\.0\.0\.1:9/manifest\.json: cannot be read"):
        flacheck.update_results("http://127.0.0.1:9")
