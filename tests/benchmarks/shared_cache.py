"""The cost of a shared cache: `python -m tests.benchmarks.shared_cache [--cells N]`.

Entries are written to a folder and to moto's S3 server, and read from both and from a plain HTTP
server of the folder, all on this machine. The output is CPU seconds and entries a second; a real
compile takes 0.2 CPU seconds and more.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from flacheck.model import Cell, Record
from flacheck.pipeline.shared_cache import SharedCache
from tests import fake
from tests.made_records import record


class _Server(ThreadingHTTPServer):
    # The default of 5 drops connections, which are tried again after a second.
    request_queue_size = 256


def records_of(number: int) -> list[Record]:
    records = []
    for each in range(number):
        cell: Cell = fake.cell("even", n=each)
        records.append(record().with_(cell=cell))
    return records


def measure(name: str, write: SharedCache | None, read: SharedCache, records: list[Record]) -> None:
    if write is not None:
        cpu, started = time.process_time(), time.monotonic()
        write.write(records)
        show(f"{name}, written", len(records), cpu, started)
    cpu, started = time.process_time(), time.monotonic()
    count = sum(len(batch) for batch in read.read(each.cell for each in records))
    assert count == len(records), count
    show(f"{name}, read", count, cpu, started)


def show(name: str, count: int, cpu: float, started: float) -> None:
    seconds, wall = time.process_time() - cpu, time.monotonic() - started
    print(
        f"{name}: {count} entries, {1000 * seconds / count:.2f} CPU ms each, {count / wall:.0f}/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1_000)
    records = records_of(parser.parse_args().cells)
    with tempfile.TemporaryDirectory() as folder:
        cache = SharedCache.open(folder, "--cache-to", is_written=True)
        measure("folder", cache, cache, records)
        handler = partial(SimpleHTTPRequestHandler, directory=folder)
        SimpleHTTPRequestHandler.log_message = lambda *_: None  # type: ignore[method-assign]
        server = _Server(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        measure("HTTP", None, SharedCache.open(url, "--cache-from"), records)
        server.shutdown()
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    storage = ThreadedMotoServer("127.0.0.1", port=0)
    storage.start()
    _, port = storage.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        AWS_ACCESS_KEY_ID="a",
        AWS_SECRET_ACCESS_KEY="b",
        AWS_DEFAULT_REGION="us-east-1",
    )
    import boto3

    boto3.client("s3").create_bucket(Bucket="results")
    bucket = SharedCache.open("s3://results/flacheck", "--cache-to", is_written=True)
    measure("S3 (moto)", bucket, bucket, records)
    storage.stop()


if __name__ == "__main__":
    main()
