"""Damaged files of every kind, read by the commands that read them."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import typer
from click.testing import CliRunner
from hypothesis import strategies as st
from msgspec.structs import replace

from flacheck import cli
from flacheck.cli import defaults
from flacheck.evidence.published import packing
from flacheck.evidence.published.form import (
    SCHEMA,
    Body,
    Header,
    decode_body,
    decode_header,
    place_file,
)
from flacheck.evidence.published.library import open_library
from flacheck.evidence.published.packing import digest_of_keys
from flacheck.files import json_objects
from flacheck.model import digest
from flacheck.pipeline import build_units
from flacheck.source import builds
from flacheck.source.builds import make_output
from flacheck.source.packages.package import Package
from flacheck.subjects.captures import capture_archive
from flacheck.subjects.captures.capture_report import check_report
from flacheck.subjects.captures.coverage import coverage
from tests import hostile
from tests.evidence.published.test_published import answers, pack_records, with_own_keys
from tests.hostile import Kind
from tests.mutations import dump, mangled, mutated
from tests.paths import ROOT

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RUNNER = CliRunner()


@functools.cache
def _command() -> Any:
    """The command line, which takes a tenth of a second to build."""
    return typer.main.get_command(cli.app)


def command(*words: str) -> None:
    """Run a command in this process; raise what would be exit 70."""
    result = RUNNER.invoke(_command(), words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 2 and not (result.stderr or result.output):
        raise AssertionError(f"{words} ended with 2 and without a word")


@st.composite
def corrupt(draw: st.DrawFn, contents: Callable[[], Sequence[bytes]]) -> str:
    """One of the contents with one to three pieces cut, doubled or replaced, as Latin-1."""
    content = draw(st.sampled_from(contents()))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 64)))
        piece = draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from((b"", content[start:end] * 2, b"\xff" * 8, b"\0" * 64)),
            )
        )
        content = content[:start] + piece + content[end:]
    return content.decode("latin-1")


def _values(values: Sequence[Any]) -> st.SearchStrategy[str]:
    """Draw a JSON document with one to three changes of its values, or of its text."""
    once = st.sampled_from(values).flatmap(mutated)
    twice = once.flatmap(mutated)
    texts = st.sampled_from([json.dumps(value) for value in values]).flatmap(mangled)
    return st.one_of(once.map(dump), twice.map(dump), texts)


@functools.cache
def _published_files() -> list[dict[str, Any]]:
    """A small shipped file, and a made one of a matrix, with their entries of the manifest."""
    library = open_library(ROOT / "results")
    (entry, *_) = library.entries("flash-kmeans==0.3.1")
    content = (library.folder / entry.file).read_bytes()
    parts = (decode_header(content, ""), decode_body(content, ""))
    header, body = pack_records(with_own_keys(answers()))
    counts = replace(header.place, version=None)
    full = replace(header, about="full", configs="own", package_digest=None, place=counts)
    matrix_fields = {
        "about": "full",
        "configs": "own",
        "toolchain": full.toolchain,
        "target": full.target,
    }
    name = place_file("full", "own", full.toolchain, full.target)
    shipped_file = {"header": parts[0], "body": parts[1], "entry": entry}
    matrix_file = {"header": full, "body": body, "entry": {**matrix_fields, "file": name}}
    return [msgspec.to_builtins(shipped_file), msgspec.to_builtins(matrix_file)]


def _with_keys(header: Any, body: Any) -> Any:
    """Return a header with the digest of the keys of changed cells, as their author would."""
    digests = []

    def note(keys: Iterable[str]) -> str:
        digests.append(digest_of_keys(keys))
        return digests[-1]

    with mock.patch.object(packing, "digest_of_keys", note), contextlib.suppress(Exception):
        packing.unpack(msgspec.convert(header, Header), msgspec.convert(body, Body))
    return {**header, "keys": digests[0]} if digests else header


def _write_results(folder: Path, entry: Any, content: bytes, text: str | None = None) -> str:
    """Write a folder of results with one file, and return its package or matrix."""
    results = folder / "results"
    facts = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    file = results / entry["file"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    manifest: dict[str, Any] = {"schema": SCHEMA, "flacheck": "0.4.0", "date": "2026-11-24"}
    manifest["files"] = [{**entry, **facts}]
    listing = (text or json.dumps(manifest)).encode(errors="surrogatepass")
    (results / "manifest.json").write_bytes(listing)
    return str(entry["about"])


def _use_results(about: str, folder: Path, text: str) -> None:
    """Run a command that reads published results; it and its format follow from the text."""
    number = zlib.crc32(text.encode(errors="surrogatepass"))
    form = ("html", "json", "markdown", "table", "sarif")[number % 5]
    results = str(folder / "results")
    pins = folder / "pins.txt"
    pins.write_text("torch>=2.9\n" + (about if "==" in about else "") + "\n")
    commands = (
        ("known", about, "--results", results, "--format", form),
        ("known", about, "--results", results, "--format", "html"),
        ("results", "update", "--results", results),
        ("gate", str(pins), "--results", results, "--format", form),
    )
    command(*commands[number // 5 % len(commands)])


def _read_published(text: str, folder: Path) -> None:
    try:
        value = json.loads(text)
        header = _with_keys(value["header"], value["body"])
        parts = ({"schema": SCHEMA, **header}, value["body"])
        entry = value["entry"]
    except (ValueError, KeyError, TypeError, RecursionError):
        parts, entry = (text,), _published_files()[0]["entry"]  # type: ignore[assignment]
    frames = [zstd.compress(json.dumps(part).encode(), 1) for part in parts]
    try:
        about = _write_results(folder, entry, b"".join(frames))
    except (TypeError, KeyError, OSError, ValueError):
        # The name of a file that cannot be written.
        return
    _use_results(about, folder, text)


def _read_results_bytes(text: str, folder: Path) -> None:
    entry = _published_files()[0]["entry"]
    about = _write_results(folder, entry, text.encode("latin-1"))
    _use_results(about, folder, text)


def _manifests() -> list[Any]:
    library = open_library(ROOT / "results")
    whole = msgspec.to_builtins(library.manifest)
    return [{**whole, "files": whole["files"][:3]}, {**whole, "files": whole["files"][:1] * 2}]


def _read_manifest(text: str, folder: Path) -> None:
    entry = _published_files()[0]["entry"]
    _write_results(folder, entry, b"", text)
    _use_results(str(entry["about"]), folder, text)


def _reader(name: str, *words: str) -> Callable[[str, Path], None]:
    """A reader that writes a file of this name, and runs a command with its path for `FILE`."""

    def read(text: str, folder: Path) -> None:
        file = folder / name
        file.write_bytes(text.encode("latin-1", "replace"))
        (folder / "pins.txt").write_text("torch==2.9.0\n")
        here = os.getcwd()
        os.chdir(folder)
        try:
            command(*(word.replace("FILE", str(file)) for word in words))
        finally:
            os.chdir(here)
            file.unlink()

    return read


def _read_user_settings(text: str, folder: Path) -> None:
    (folder / "flacheck").mkdir(exist_ok=True)
    (folder / "flacheck" / "config.toml").write_bytes(text.encode("latin-1", "replace"))
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder)}
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    try:
        defaults.of(_command(), folder, environment)
    finally:
        if before is None:
            del os.environ["XDG_CONFIG_HOME"]
        else:
            os.environ["XDG_CONFIG_HOME"] = before


_REPORT = {
    "modules": {"m.a": "ImportError: x"},
    "operators": {"m:f": {"kernels": ["m:k"], "calls": 1, "launches": 0, "failures": {"p": "x"}}},
    "alone": {"m:k": {"failures": {"p": "TypeError"}}},
    "late": True,
    "cut": ["m:g"],
    "refused": {"m:l": "x"},
    "untaken": {"m:k": "x"},
    "said": [{"text": "x", "by": "m"}],
    "tests": {
        "tests": {"passed": 1},
        "failures": {"t": "x"},
        "wanting": ["t"],
        "uncollected": {},
        "cut": [],
        "unrun": 0,
        "ended": None,
        "kernels": {"tests": [], "driver": [], "both": []},
    },
}


def _read_report(text: str, folder: Path) -> None:
    for report in json_objects(text.encode("latin-1", "replace")):
        coverage({"m:k": ("m:f",), "m:l": ()}, {}, check_report(report))


def _archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p-1-0/launches.jsonl", '{"schema": "flacheck.launches/1"}\n' * 40)
        archive.writestr("p-1-0/report.json", json.dumps(_REPORT))
    return buffer.getvalue()


def _read_archive(text: str, folder: Path) -> None:
    file = folder / "captures.zip"
    file.write_bytes(text.encode("latin-1"))
    with capture_archive.open_archive(file):
        pass


def _logs() -> list[bytes]:
    log = hostile.LOG.encode() * 3
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("job/1.txt", log)
    return [
        log,
        gzip.compress(log),
        zstd.compress(log),
        buffer.getvalue(),
        log.decode().encode("utf-16"),
    ]


_MAKE = (
    "make: Entering directory '/x'\n"
    "nvcc -O3 -std=c++17 -DN=64 -Icsrc -gencode arch=compute_90a,code=sm_90a -c csrc/a.cu -o a.o\n"
    "cd csrc && nvcc -c 'b c.cu' \\\n -o b.o; g++ -shared a.o -o x.so\n"
    "make: Leaving directory '/x'\n"
)


def _read_make(text: str, folder: Path) -> None:
    make_output.read(text, folder, folder)


_NINJA = """
ninja_required_version = 1.3
nvcc = /usr/local/cuda/bin/nvcc
flags = -DTORCH_EXTENSION_NAME=attn -Icsrc -isystem /usr/include/torch
post = --expt-relaxed-constexpr -std=c++17 $
  -gencode=arch=compute_90,code=sm_90
rule cuda_compile
  depfile = $out.d
  command = $nvcc --dependency-output $out.d $flags -c $in -o $out $post

build fwd.o: cuda_compile csrc/a_64.cu
build bwd.o: cuda_compile csrc/b_64.cu | csrc/common.h
  post = -DBACKWARD=1 ${flags}
"""
# Lines that never end, refer to themselves or lack a part.
_NINJA_LOOPS = (
    _NINJA.replace("rule ", "a = $a$a$a\n  b = $a\nrule "),
    _NINJA.replace("-c $in", "$in $in $command$command '"),
    _NINJA + "subninja x\ninclude /dev/zero\nbuild x:\nbuild $\npool x\n",
)
_DATABASE: list[dict[str, Any]] = [
    {"directory": ".", "command": "nvcc -DD=64 -Icsrc -c csrc/a_64.cu -o a.o", "file": "a.cu"},
    {"directory": "csrc", "arguments": ["nvcc", "-I.", "-std=c++20", "-c", "b_64.cu"]},
]


def _build_reader(name: str) -> Callable[[str, Path], None]:
    """A reader of a project with a build file of this name, as a scan reads it."""

    def read(text: str, folder: Path) -> None:
        root = folder / "project"
        for unit in ("a_64.cu", "b_64.cu"):
            (root / "csrc").mkdir(parents=True, exist_ok=True)
            (root / "csrc" / unit).write_text("// a unit\n")
        (root / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        package = Package("pack", "1", str(root), "digest", {})
        try:
            for source in build_units.sources_of(package, builds.find(root)):
                digest([source.kernel.to_json(), [each.to_json() for each in source.launches]])
        finally:
            (root / name).unlink()

    return read


def _store() -> bytes:
    """The file of a small store."""
    from tests.store import test_damage

    global _STORE_FILE
    if not _STORE_FILE:
        import tempfile

        with tempfile.TemporaryDirectory() as one:
            _STORE_FILE = test_damage.fill(Path(one)).read_bytes()
    return _STORE_FILE


_STORE_FILE = b""


def _read_store(text: str, folder: Path) -> None:
    for old_file in folder.glob("flacheck.sqlite*"):
        old_file.unlink()
    (folder / "flacheck.sqlite").write_bytes(text.encode("latin-1"))
    form = ("html", "json", "markdown", "table")[len(text) % 4]
    command("report", "--store", str(folder), "--format", form)
    command("runs", "--store", str(folder))


_BASELINE: Any = {
    "schema": "flacheck.baseline/1",
    "flacheck": "0.4.0",
    "questions": [],
}
_LOCK = """\
version = 1
requires-python = ">=3.10"

[[package]]
name = "torch"
version = "2.9.0"
source = { registry = "https://pypi.org/simple" }
dependencies = [{ name = "triton", marker = "sys_platform == 'linux'" }]

[[package]]
name = "triton"
version = "3.5.0"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://x/triton-3.5.0-cp311-cp311-linux_x86_64.whl", hash = "sha256:00" }]

[[package]]
name = "x"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "torch" }]

[package.optional-dependencies]
gpu = [{ name = "triton" }]
"""
_PYLOCK = """\
lock-version = "1.0"
created-by = "x"

[[packages]]
name = "torch"
version = "2.9.0"
marker = "sys_platform == 'linux'"
wheels = [{ url = "https://x/torch-2.9.0-py3-none-any.whl", hashes = { sha256 = "00" } }]
"""


def _run_document() -> Any:
    from tests.made_records import record

    records = [
        record(),
        record("fails", options={"num_warps": 8}, code="FC302", signature="FC302:x"),
    ]
    return {
        "schema": "flacheck.run/1",
        "run": {"id": "x", "started": "2026-11-24T00:00:00", "flacheck": "0.4.0"},
        "records": [each.to_json() for each in records],
        "summary": {"partial": [{"toolchain": "t", "target": "sm90", "answered": 1, "asked": 2}]},
    }


def _texts(*texts: str) -> st.SearchStrategy[str]:
    """One of the texts, changed as a text or as bytes."""
    return st.one_of(
        st.sampled_from(texts).flatmap(mangled),
        corrupt(lambda: [text.encode() for text in texts]),
    )


@functools.cache
def kinds() -> dict[str, Kind]:
    """All kinds of files, those of `hostile` included."""
    launches = "".join(json.dumps(line) + "\n" for line in hostile.LINES)
    files = {
        "published": Kind(st.deferred(lambda: _values(_published_files())), _read_published),
        "published bytes": Kind(corrupt(lambda: [_published_bytes()]), _read_results_bytes),
        "manifest": Kind(st.deferred(lambda: _values(_manifests())), _read_manifest),
        "combinations": Kind(
            _texts((ROOT / "results" / "combinations.yaml").read_text()[:2000]),
            _reader("c.yaml", "results", "build", "FILE", "-o", "out", "--dry-run"),
        ),
        "baseline": Kind(
            _values([_BASELINE]), _reader("b.json", "gate", "pins.txt", "--baseline", "FILE")
        ),
        "run": Kind(
            st.deferred(lambda: _values([_run_document()])),
            _reader("r.json", "diff", "FILE", "FILE", "--format", "html"),
        ),
        "requirements": Kind(_texts(hostile.REQUIREMENTS), _reader("r.txt", "gate", "FILE")),
        "pyproject": Kind(_texts(hostile.TOML), _reader("pyproject.toml", "gate", "FILE")),
        "uv.lock": Kind(_texts(_LOCK), _reader("uv.lock", "gate", "FILE")),
        "pylock": Kind(_texts(_PYLOCK), _reader("pylock.toml", "gate", "FILE")),
        "user settings": Kind(
            _texts('target = ["sm90"]\njobs = 2\n[waivers]\n'), _read_user_settings
        ),
        "log bytes": Kind(corrupt(_logs), _reader("a.log", "explain", "FILE")),
        "launches bytes": Kind(
            corrupt(lambda: [launches.encode()]),
            _reader("l.jsonl", "scan", "FILE", "--dry-run", "--triton", "3.2.0"),
        ),
        "capture report": Kind(_values([_REPORT]), _read_report),
        "capture archive": Kind(corrupt(lambda: [_archive()]), _read_archive),
        "make output": Kind(_texts(_MAKE), _read_make),
        "ninja": Kind(_texts(_NINJA, *_NINJA_LOOPS), _build_reader("build.ninja")),
        "compile commands": Kind(_values([_DATABASE]), _build_reader("compile_commands.json")),
        "store bytes": Kind(corrupt(lambda: [_store()]), _read_store),
    }
    return {**hostile.KINDS, **files}


def _published_bytes() -> bytes:
    entry = _published_files()[0]["entry"]
    return (ROOT / "results" / entry["file"]).read_bytes()
