"""Results that other machines compiled: read, checked, written, and named in each record."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import flacheck
from flacheck.model import Cell, Record, Verdict, digest
from flacheck.pipeline import run as runs
from flacheck.pipeline.events import RecordSettled
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.run import run_plan
from flacheck.pipeline.shared_cache import SharedCache
from flacheck.store import Store
from tests import fake

TABLE: dict[str, Any] = {"bad": "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."}
CELLS = [fake.cell(name, num_warps=4) for name in ("good", "bad", "other")]
GOOD = CELLS[0]
# A compiler under which each cell ends otherwise: what it does not change was not compiled.
BROKEN = {cell.kernel.name.rpartition(".")[2]: "shared 1" for cell in CELLS}


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fake compiler's table."""
    table = dict(TABLE)
    monkeypatch.setattr(runs, "Provider", lambda *_: fake.Provider(table))
    monkeypatch.setattr(runs.torch_pins, "refresh", lambda: None)
    return table


def scan(folder: Path, cells: list[Cell] = CELLS, **options: Any) -> dict[str, Record]:
    """The records of a run into a store of its own, by kernel."""
    with Store.open(folder) as store:
        events = run_plan(Plan("mine", cells, {}), store, RunOptions(jobs=1, **options))
        records = [event.record for event in events if isinstance(event, RecordSettled)]
        (run,) = store.runs()
        by_key = {record.key: record for record in store.records(run.id)}
    assert [each.verdict for each in records] == [by_key[each.key].verdict for each in records]
    return {each.kernel: by_key[each.key] for each in records}


def verdicts(records: dict[str, Record]) -> dict[str, str]:
    return {name: record.verdict.value for name, record in records.items()}


def entry_of(cache: Path, cell: Cell) -> Path:
    return cache / "v1" / cell.key[:2] / f"{cell.key}.json"


VERDICTS = {"fake.good": "compiles", "fake.bad": "fails", "fake.other": "compiles"}


def test_a_folder_answers_what_another_machine_compiled(
    tmp_path: Path, compiler: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is compiled, and each record names its origin."""
    cache = str(tmp_path / "cache")
    first = scan(tmp_path / "a", cache_from=cache, cache_to=cache)
    assert verdicts(first) == VERDICTS
    assert {each.shared_cache for each in first.values()} == {None}
    compiler.update(BROKEN)
    second = scan(tmp_path / "b", cache_from=cache)
    assert verdicts(second) == VERDICTS
    assert {each.shared_cache for each in second.values()} == {cache}
    assert second["fake.bad"].signature == first["fake.bad"].signature
    assert second["fake.good"].to_json()["shared_cache"] == cache
    assert f"3 results of 3 from the shared cache {cache}" in caplog.text


def test_only_what_is_missing_is_compiled_and_written(
    tmp_path: Path, compiler: dict[str, Any]
) -> None:
    """A verdict that the cache has is not written again, and neither is one from this store."""
    cache = tmp_path / "cache"
    scan(tmp_path / "a", [GOOD], cache_to=str(cache))
    before = entry_of(cache, GOOD).stat().st_mtime_ns
    second = scan(tmp_path / "b", cache_from=str(cache), cache_to=str(cache))
    assert {name: each.shared_cache for name, each in second.items()} == {
        "fake.good": str(cache),
        "fake.bad": None,
        "fake.other": None,
    }
    assert entry_of(cache, GOOD).stat().st_mtime_ns == before
    assert all(entry_of(cache, cell).is_file() for cell in CELLS)


def test_fresh_compiles_what_the_cache_has(tmp_path: Path, compiler: dict[str, Any]) -> None:
    """`--fresh` trusts no earlier result."""
    cache = str(tmp_path / "cache")
    scan(tmp_path / "a", [GOOD], cache_to=cache)
    compiler.update(BROKEN)
    fresh = scan(tmp_path / "b", [GOOD], cache_from=cache, fresh=True)
    assert fresh["fake.good"].shared_cache is None


def _seal(plain: dict[str, Any], **changes: Any) -> bytes:
    """An entry whose record was changed and whose digest fits again."""
    record = {**plain["record"], **changes}
    return json.dumps({**plain, "record": record, "digest": digest(record)}).encode()


HOSTILE = {
    "not JSON": lambda plain: b"\x00<html>",
    "not an object": lambda plain: b"[1]",
    "nothing": lambda plain: b"",
    "deeply nested": lambda plain: b"[" * 100_000,
    "nested record": lambda plain: _seal(plain, shape=json.loads("[" * 60 + "]" * 60)),
    "another schema": lambda plain: json.dumps({**plain, "schema": "x/9"}).encode(),
    "a changed verdict": lambda plain: json.dumps(
        {**plain, "record": {**plain["record"], "verdict": "fails"}}
    ).encode(),
    "the key of another": lambda plain: json.dumps({**plain, "key": CELLS[1].key}).encode(),
    "a record of another key": lambda plain: _seal(plain, key=CELLS[1].key),
    "another kernel": lambda plain: _seal(plain, kernel="fake.other"),
    "another target": lambda plain: _seal(plain, target="sm70"),
    "other options": lambda plain: _seal(plain, options={"num_warps": 8}),
    "an unknown": lambda plain: _seal(plain, verdict="unknown", reason="no memory"),
    "a word for seconds": lambda plain: _seal(plain, seconds="long"),
    "half a character": lambda plain: json.dumps(
        {**plain, "record": {**plain["record"], "message": "\ud800"}}
    ).encode(),
    "too large": lambda plain: _seal(plain, message="x" * (1 << 21)),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_entry_is_rejected_and_compiled_here(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The scan prints one warning for all invalid entries; the other entries count."""
    cache = tmp_path / "cache"
    scan(tmp_path / "a", cache_to=str(cache))
    file = entry_of(cache, GOOD)
    file.write_bytes(HOSTILE[how](json.loads(file.read_bytes())))
    caplog.clear()
    second = scan(tmp_path / "b", cache_from=str(cache))
    assert verdicts(second) == VERDICTS
    assert second["fake.good"].shared_cache is None
    assert second["fake.other"].shared_cache == str(cache)
    warnings = [each.getMessage() for each in caplog.records if "rejected" in each.getMessage()]
    assert len(warnings) == 1
    assert f"1 entry rejected and compiled here ({GOOD.key}: " in warnings[0]


def test_what_holds_on_this_machine_alone_is_not_shared(tmp_path: Path) -> None:
    """A skipped or unknown cell may well have a verdict elsewhere."""
    cache = SharedCache.open(str(tmp_path), "--cache-to", is_written=True)
    record = scan(tmp_path / "a", [GOOD])["fake.good"]
    cache.write([record.with_(verdict=Verdict.UNKNOWN), record.with_(verdict=Verdict.SKIPPED)])
    assert not (tmp_path / "v1").exists()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The URL of a plain HTTP server of the folder `cache`."""
    (tmp_path / "cache").mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "cache"))
    handler.log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_plain_http_server_answers(
    address: str, tmp_path: Path, compiler: dict[str, Any]
) -> None:
    """Any server of static files works; missing results are compiled here."""
    scan(tmp_path / "a", CELLS[:2], cache_to=str(tmp_path / "cache"))
    second = scan(tmp_path / "b", cache_from=address)
    assert {name: each.shared_cache for name, each in second.items()} == {
        "fake.good": address,
        "fake.bad": address,
        "fake.other": None,
    }
    assert verdicts(second) == VERDICTS


def test_http_is_not_written(address: str) -> None:
    """The error comes before any compile."""
    with pytest.raises(flacheck.UsageError, match=r"--cache-to http.*: HTTP is read only"):
        SharedCache.open(address, "--cache-to", is_written=True)


def test_a_cache_that_does_not_answer_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run continues without the cache, and credentials are not shown."""
    url = "http://someone:secret@127.0.0.1:9/cache"
    assert verdicts(scan(tmp_path / "a", cache_from=url)) == VERDICTS
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    (warning,) = [each.getMessage() for each in warnings]
    assert "shared cache http://127.0.0.1:9/cache could not be read" in warning
    assert "secret" not in caplog.text


def test_a_cache_that_cannot_be_written_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every record is in the store."""
    (tmp_path / "file").write_text("")
    assert verdicts(scan(tmp_path / "a", cache_to=str(tmp_path / "file"))) == VERDICTS
    assert caplog.text.count("could not be written") == 1


@pytest.mark.parametrize(
    "url", ["nowhere://bucket/path", "s4://x", "reference://x", "simplecache::s3://x", "memory://x"]
)
def test_an_unknown_kind_of_storage_is_a_usage_error(url: str, tmp_path: Path) -> None:
    """The message names the option."""
    with pytest.raises(flacheck.UsageError, match=rf"--cache-from {url}: not a shared cache"):
        flacheck.scan("quick", cache_from=url, store=tmp_path)
    assert not (tmp_path / "flacheck.sqlite").exists()


def test_without_the_extra_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec comes with flacheck[cache]."""
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(flacheck.UsageError, match=r"pip install 'flacheck\[cache\]'"):
        SharedCache.open("s3://bucket", "--cache-from")


@pytest.mark.slow
def test_an_s3_compatible_bucket(
    tmp_path: Path, compiler: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """moto's server stands in for Amazon's, through s3fs."""
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    endpoint = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="results")
    url = "s3://results/flacheck"
    try:
        first = scan(tmp_path / "a", CELLS[:2], cache_from=url, cache_to=url)
        assert {each.shared_cache for each in first.values()} == {None}
        listing = client.list_objects_v2(Bucket="results")["Contents"]
        keys = {f"flacheck/v1/{cell.key[:2]}/{cell.key}.json" for cell in CELLS[:2]}
        assert {each["Key"] for each in listing} == keys
        hostile = f"flacheck/v1/{GOOD.key[:2]}/{GOOD.key}.json"
        client.put_object(Bucket="results", Key=hostile, Body=b"{}")
        second = scan(tmp_path / "b", cache_from=url)
        assert verdicts(second) == VERDICTS
        assert {name: each.shared_cache for name, each in second.items()} == {
            "fake.good": None,
            "fake.bad": url,
            "fake.other": None,
        }
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()
