"""Newer published results: each file is checked before the folder takes its place."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flacheck import files
from flacheck.errors import IncompleteError, UsageError
from flacheck.evidence.published.combinations import read_combinations
from flacheck.evidence.published.form import (
    MOST_BYTES,
    FileEntry,
    Manifest,
    decode_manifest,
)
from flacheck.evidence.published.library import COMBINATIONS, FOLDER, MANIFEST, decode_place
from flacheck.pipeline.events import Event, Progress
from flacheck.toolchains import cache, connections
from flacheck.toolchains.scratch import temporary_folder

_SECONDS = 60
_SCHEMES = ("https", "http")
_MOST_FILES = 20_000
# Bytes of all files together.
_MOST_TOTAL = 512 << 20
# (name in the folder, most bytes) → content
_Fetch = Callable[[str, int], bytes]


def is_url(source: str) -> bool:
    """Return True for a URL, False for a folder."""
    return "://" in source


def update(source: str, folder: Path | None = None) -> Generator[Event, None, Manifest]:
    """Copy the results of a folder or URL into the user's cache; return their manifest.

    Nothing changes unless every file has the size and the hash of the manifest and the right form.

    Raises:
        UsageError: If a file is damaged, too large or malformed.
        IncompleteError: If the URL cannot be read.
    """
    folder = folder or cache.root() / FOLDER
    fetch = _from_url(source) if is_url(source) else _from_folder(Path(source))
    listing = fetch(MANIFEST, MOST_BYTES)
    manifest = decode_manifest(listing, f"{source}: {MANIFEST}")
    _check_size(source, manifest)
    with temporary_folder() as aside:
        into = Path(aside) / FOLDER
        into.mkdir()
        for number, entry in enumerate(manifest.files, 1):
            content = _checked(source, entry, fetch(entry.file, entry.bytes))
            path = into / entry.file
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            if number % 25 == 0:
                yield Progress(f"{number} of {len(manifest.files)} files")
        (into / MANIFEST).write_bytes(listing)
        _take_combinations(fetch, into)
        _replace(into, folder)
    yield Progress(f"{folder}: {len(manifest.files)} files of {manifest.date}")
    return manifest


def _check_size(source: str, manifest: Manifest) -> None:
    total = sum(entry.bytes for entry in manifest.files)
    if len(manifest.files) > _MOST_FILES or total > _MOST_TOTAL:
        raise UsageError(
            f"{source}: {len(manifest.files):,} files with {total:,} bytes are too many for "
            "published results"
        )


def _checked(source: str, entry: FileEntry, content: bytes) -> bytes:
    """Return a file's content if it has its hash and a valid form."""
    name = f"{source}: {entry.file}"
    if len(content) != entry.bytes or hashlib.sha256(content).hexdigest() != entry.sha256:
        raise UsageError(f"{name}: differs from the manifest; nothing was changed")
    decode_place(content, entry, name)
    return content


def _take_combinations(fetch: _Fetch, into: Path) -> None:
    """Copy the file of combinations, if there is a readable one."""
    file = into / COMBINATIONS
    try:
        file.write_bytes(fetch(COMBINATIONS, MOST_BYTES))
        read_combinations(file)
    except (UsageError, IncompleteError):
        file.unlink(missing_ok=True)


def _replace(new: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    old = folder.with_name(f"{folder.name}.old")
    staged = folder.with_name(f"{folder.name}.new")
    for leftover in (old, staged):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(new, staged)
    if folder.exists():
        folder.rename(old)
    staged.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _from_folder(folder: Path) -> _Fetch:
    def fetch(name: str, most: int) -> bytes:
        path = folder / name
        try:
            return files.read_bytes(path, most)
        except OSError as error:
            raise UsageError(
                f"{path}: cannot be read ({error.strerror}); name a folder that `flacheck results "
                "build` wrote, or its URL"
            ) from None

    return fetch


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects that lead to web addresses, and from https to https alone."""

    def redirect_request(self, req: Any, *details: Any) -> Any:
        """Return the next request; the reader's error names a refused address."""
        address = details[-1]
        before, after = urlsplit(req.full_url).scheme, urlsplit(address).scheme
        if after not in _SCHEMES or (before == "https" and after != "https"):
            raise urllib.error.URLError(f"it leads to {address}")
        return super().redirect_request(req, *details)


def _from_url(url: str) -> _Fetch:
    if urlsplit(url).scheme not in _SCHEMES:
        raise UsageError(f"{url}: only https and http are read; name a folder without a scheme")
    opener = urllib.request.build_opener(_Redirects)

    if connections.is_offline():
        raise UsageError(f"{url}: --offline forbids reading it; name a folder, or leave it out")

    def fetch(name: str, most: int) -> bytes:
        address = f"{url.rstrip('/')}/{name}"
        try:
            # The scheme was checked above.
            with opener.open(address, timeout=_SECONDS) as answer:
                content: bytes = answer.read(most + 1)
        except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise IncompleteError(
                f"{address}: cannot be read ({reason}); nothing was changed"
            ) from None
        if len(content) > most:
            raise UsageError(f"{address}: larger than {most:,} bytes; nothing was changed")
        return content

    return fetch
