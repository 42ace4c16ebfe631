"""The store: durable, resumable, mergeable, and clear when it cannot be."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import judge
from flacheck.errors import Exit, StoreError, UsageError
from flacheck.model import (
    Attempt,
    Cell,
    Cut,
    Kernel,
    Launch,
    Outcome,
    Purpose,
    Question,
    Record,
    RequestedCells,
    Verdict,
)
from flacheck.model.question import key_sets
from flacheck.store import Store, database
from flacheck.store.database import TARGET, TOOLCHAIN
from tests.forked import Script
from tests.made_records import failure, record
from tests.paths import TESTS

ENVIRONMENT = {"flacheck": "0.1", "python": "3.11.9", "platform": "linux-x86_64"}


# What the scripts of other processes begin with.
_OPENING = f"""
import sys
from flacheck.store import Store
from tests.made_records import record
ENVIRONMENT = {ENVIRONMENT}
def _cell(n):
    return record(key=f"{{n:032x}}")
"""


def _cell(n: int, **more: Any) -> Record:
    return record(key=f"{n:032x}", **more)


def _adder(script: str, *arguments: object, **more: Any) -> subprocess.Popen[str]:
    """A Python process with the store at hand, as another scan would be."""
    path = {"PYTHONPATH": str(TESTS.parent)}
    command = [
        *more.pop("before", ()),
        sys.executable,
        "-c",
        _OPENING + script,
        *map(str, arguments),
    ]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, env={**os.environ, **path}, **more
    )


def _keys(store: Store) -> set[str]:
    return {record.key for record in store.latest()}


def _sound(directory: Path) -> bool:
    with sqlite3.connect(directory / "flacheck.sqlite") as db:
        return db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_record_comes_back_as_it_went_in(store: Store) -> None:
    """Every field of a record survives the way to the disk and back."""
    run = store.begin_run(ENVIRONMENT, "quick", {"forms": []})
    put = failure(
        findings=({"code": "FC302", "title": "t", "facts": {"bytes": 3}},), line="→ line\nline"
    )
    store.add(run, put)
    assert list(store.records(run)) == [put]
    assert list(store.latest()) == [put]


def test_a_run_tells_its_environment(store: Store) -> None:
    """A run keeps its matrix, environment and context, and shows the contract's fields."""
    run = store.run(store.begin_run(ENVIRONMENT, "quick", {"forms": [[None, "k", "op", "chunk"]]}))
    assert run.context == {"forms": [[None, "k", "op", "chunk"]]}
    assert run.finished is None
    assert (run.matrix, run.environment) == ("quick", ENVIRONMENT)
    store.finish_run(run.id)
    assert (store.run(run.id).finished or "") > run.started


def test_runs_resolve_like_git_prefixes(store: Store) -> None:
    """A run is found by `last`, by its id and by a unique prefix; otherwise the candidates are
    named."""
    first, second = store.begin_run(ENVIRONMENT), store.begin_run(ENVIRONMENT)
    assert [run.id for run in store.runs()] == [first, second]
    assert store.run("last").id == second
    assert store.run(first[:-1]).id == first
    with pytest.raises(UsageError, match=rf"several runs.*{first}, {second}"):
        store.run(first[:2])
    with pytest.raises(UsageError, match=rf"no run 'zzz'.*{first}, {second}"):
        store.run("zzz")


def test_an_empty_store_has_no_last_run(store: Store) -> None:
    """The message for a store without a run gives the command that makes one."""
    with pytest.raises(UsageError, match="flacheck scan"):
        store.run()


def test_done_gives_the_latest_record_of_each_key(store: Store) -> None:
    """The newest of several records of a key counts, and unknown keys are absent."""
    run = store.begin_run(ENVIRONMENT)
    store.add_many(run, [_cell(1, seconds=1.0), _cell(2), _cell(1, seconds=2.0)])
    records = store.latest_records([_cell(1).key, _cell(3).key])
    assert records == {_cell(1).key: _cell(1, seconds=2.0, cached=True)}
    assert store.latest_verdicts([_cell(2).key, _cell(3).key]) == {_cell(2).key: Verdict.COMPILES}
    assert [record.seconds for record in store.latest()] == [1.5, 2.0]


def test_a_cached_record_belongs_to_later_runs_too(store: Store) -> None:
    """A record of an earlier run is `cached` in the later one and unchanged in its own."""
    first = store.begin_run(ENVIRONMENT)
    store.add_many(first, [_cell(1), _cell(2)])
    second = store.begin_run(ENVIRONMENT)
    assert store.add_cached(second, [_cell(1), _cell(9)]) == 1
    store.add(second, _cell(3))
    assert [(record.key, record.cached) for record in store.records(second)] == [
        (_cell(1).key, True),
        (_cell(3).key, False),
    ]
    assert [record.cached for record in store.records(first)] == [False, False]


def test_a_cell_is_found_by_eight_characters(store: Store) -> None:
    """A prefix finds every cell it fits; a shorter one is refused."""
    store.add_many(
        store.begin_run(ENVIRONMENT),
        [record(key="abcdef0123"), record(key="abcdef0145"), record(key="b" * 10)],
    )
    assert [match.key for match in store.find("abcdef01")] == ["abcdef0123", "abcdef0145"]
    assert [match.key for match in store.find("abcdef012")] == ["abcdef0123"]
    assert store.find("cccccccc") == []
    with pytest.raises(UsageError, match="at least 8"):
        store.find("abcdef0")


def test_merging_is_idempotent_and_keeps_the_latest(store: Store, tmp_path: Path) -> None:
    """Shards come together with their runs; a second merge adds nothing; the newest record wins,
    wherever it was."""
    with Store.open(tmp_path / "other") as other:
        theirs = other.begin_run(ENVIRONMENT, "shard")
        other.add_many(theirs, [_cell(1, seconds=1.0), _cell(2)])
        ours = store.begin_run(ENVIRONMENT)
        store.add(ours, _cell(1, seconds=9.0))
        assert store.merge(other) == [2]
        assert store.merge(other) == [0]
    assert [run.id for run in store.runs()] == [theirs, ours]
    assert [record.seconds for record in store.records(theirs)] == [1.0, 1.5]
    assert store.latest_records([_cell(1).key])[_cell(1).key].seconds == 9.0


def test_records_are_immutable(store: Store) -> None:
    """Not even SQL changes a stored record."""
    store.add(store.begin_run(ENVIRONMENT), _cell(1))
    with (
        sqlite3.connect(store.path) as db,
        pytest.raises(sqlite3.IntegrityError, match="immutable"),
    ):
        db.execute("UPDATE records SET body = '{}'")


def test_a_batch_is_stored_whole_or_not_at_all(store: Store) -> None:
    """An iterable that raises in the middle leaves nothing of its batch."""

    def broken() -> Iterator[Record]:
        yield _cell(1)
        raise RuntimeError("the worker fell over")

    run = store.begin_run(ENVIRONMENT)
    with pytest.raises(RuntimeError):
        store.add_many(run, broken())
    assert list(store.records(run)) == []


@pytest.mark.slow
def test_many_cells_cost_no_more_each_than_few(store: Store) -> None:
    """Adding in batches of 50, asking for keys, taking over what is there: ten times the cells take
    about ten times as long."""
    run = store.begin_run(ENVIRONMENT)
    cells = [_cell(n) for n in range(11_000)]

    def add(some: list[Record]) -> None:
        for n in range(0, len(some), 50):
            store.add_many(run, some[n : n + 50])

    def ask(some: list[Record]) -> None:
        assert len(store.latest_verdicts(cell.key for cell in some)) == len(some)
        assert len(store.latest_records(cell.key for cell in some)) == len(some)
        assert store.add_cached(store.begin_run(ENVIRONMENT), some) == len(some)

    few, many = cells[:1_000], cells[1_000:]
    for do in (add, ask):
        once, tenfold = _cpu_seconds(do, few), _cpu_seconds(do, many)
        assert tenfold < 40 * once, (do.__name__, once, tenfold)


def _cpu_seconds(do: Callable[[list[Record]], None], cells: list[Record]) -> float:
    start = time.process_time()
    do(cells)
    return time.process_time() - start


def test_two_scans_at_once_lose_nothing(tmp_path: Path) -> None:
    """Four processes that create and fill one store at the same moment all succeed."""
    script = (
        "n = int(sys.argv[2])\nwith Store.open(sys.argv[1]) as s:\n"
        "    run = s.begin_run(ENVIRONMENT)\n    for i in range(50): s.add(run, _cell(1000 * n + i))\n"
    )
    scans = [Script(_OPENING + script, tmp_path / "s", n) for n in range(4)]
    assert [scan.wait() for scan in scans] == [0, 0, 0, 0]
    with Store.open(tmp_path / "s", create=False) as store:
        assert _keys(store) == {_cell(1000 * n + i).key for n in range(4) for i in range(50)}


def test_a_killed_scan_loses_nothing_it_had_acknowledged(tmp_path: Path) -> None:
    """Killed again and again, the store stays sound and holds every record that was ever
    acknowledged."""
    script = (
        "with Store.open(sys.argv[1]) as s:\n    run = s.begin_run(ENVIRONMENT); n = int(sys.argv[2])\n"
        "    while True:\n        s.add(run, _cell(n)); print(n, flush=True); n += 1\n"
    )
    receipts: set[str] = set()
    for turn in range(6):
        scan = Script(_OPENING + script, tmp_path / "s", turn * 100_000)
        receipts |= {_cell(int(scan.stdout.readline())).key}
        time.sleep(0.05 + 0.037 * turn)
        scan.kill()
        # The last line may be cut where the process died.
        receipts |= {
            _cell(int(line)).key for line in scan.output().splitlines(True) if line.endswith("\n")
        }
        assert _sound(tmp_path / "s")
    with Store.open(tmp_path / "s", create=False) as store:
        assert receipts <= _keys(store)
        assert len(receipts) > 6


FILL = (
    "from flacheck.errors import StoreError\n"
    "s = Store.open(sys.argv[1]); run = s.begin_run(ENVIRONMENT); n = 0\n"
    "try:\n    while n < 100_000:\n        s.add(run, _cell(n)); n += 1\n"
    "except StoreError as error:\n    print(n); print(error); print(len(list(s.records(run))))\n"
    "s.close()\n"
    "print(len(list(Store.open(sys.argv[1], create=False).records(run))))\n"
)


def test_a_full_disk_is_said_and_nothing_stored_is_lost(tmp_path: Path) -> None:
    """On a full file system the scan ends with "no space", and stored records stay readable."""
    command = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount -t tmpfs -o size=1m none "$0" && exec "$@"',
        str(tmp_path),
    ]
    if (
        not shutil.which("unshare")
        or subprocess.run([*command, "true"], capture_output=True).returncode
    ):
        pytest.skip("this machine lets nobody mount a small file system")
    output = _adder(FILL, tmp_path / "s", before=command).communicate(timeout=300)[0].splitlines()
    assert "no space" in output[1]
    assert output[0] == output[2] == output[3]
    assert int(output[0]) > 20


def test_a_limit_on_file_sizes_is_said_and_nothing_stored_is_lost(tmp_path: Path) -> None:
    """A limit on file sizes gives the message about space, and the store stays intact."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
    output = Script(_OPENING + limit + FILL, tmp_path / "s").output().splitlines()
    assert "no space" in output[1]
    assert output[0] == output[2] == output[3]
    assert _sound(tmp_path / "s")


def _record_of(**more: Any) -> tuple[Cell, Record]:
    """A cell that was cut out of a program, and its record."""
    launch = Launch(
        {"x": {"dtype": "bf16", "align": 16}, "s": {"float": 0.1}, "n": None},
        ("BK",),
        ({"BK": 32},),
        ("x",),
    )
    kernel = Kernel("m:k", "p==1", "d" * 32, Cut("import triton\n", "k"), "copy", "chunk")
    columns: dict[str, Any] = {
        "options": {"num_warps": 4},
        "dtype": "bf16",
        "shape": {"T": 64},
        "is_widened": True,
        **more,
    }
    cell = Cell(kernel, "triton==3.2.0", "sm90", launch, **columns)
    return cell, judge.judge(cell, Attempt(Outcome.FINISHED))


@pytest.mark.parametrize("more", [{}, {"stage": "autotune", "options": {}}, {"until": "ttgir"}])
def test_a_cell_comes_back_from_its_record(store: Store, more: dict[str, Any]) -> None:
    """Kernel, source, launch, options and stages give the same key, and so the same compile."""
    cell, original = _record_of(**more)
    store.add_cells([cell, cell])
    store.add(store.begin_run(ENVIRONMENT), original)
    (copy,) = store.find(cell.key)
    assert copy == original
    assert copy.cell == cell
    # The key follows from what came back, and is not only the one that was stored.
    assert replace(copy.cell).key == cell.key


def test_a_source_is_kept_once_for_all_its_cells(store: Store) -> None:
    """The number of compiled cells does not matter."""
    store.add_cells(_record_of(options={"num_warps": warps})[0] for warps in range(1, 20))
    with sqlite3.connect(store.path) as db:
        counts = [
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("kernels", "cells")
        ]
    assert counts == [1, 19]


def test_merging_takes_cells_over(store: Store, tmp_path: Path) -> None:
    """A shard's cell can be compiled again from the merged store."""
    cell, original = _record_of()
    with Store.open(tmp_path / "shard") as shard:
        shard.add_cells([cell])
        shard.add(shard.begin_run(ENVIRONMENT), original)
        assert store.merge(shard) == [1]
        assert store.merge(shard) == [0]
    assert store.find(cell.key)[0].cell == cell


def test_what_a_search_compiled_answers_a_later_scan(store: Store) -> None:
    """A candidate belongs to no scan until a scan requests it, and is found by its key before."""
    search = store.begin_run(ENVIRONMENT, purpose=Purpose.FALLBACKS)
    store.add(search, _cell(1))
    assert list(store.latest()) == []
    assert store.find(_cell(1).key) == [_cell(1)]
    scan = store.begin_run(ENVIRONMENT)
    store.add_cached(scan, [_cell(1)])
    assert list(store.latest()) == [_cell(1)]
    assert [record.cached for record in store.records(scan)] == [True]


def test_a_run_keeps_its_purpose_and_question(store: Store) -> None:
    """The number of requested cells is stored for each toolchain and target."""
    cell, _ = _record_of()
    keys = key_sets([cell], {})["triton==3.2.0", "sm90"]
    cells = RequestedCells("triton==3.2.0", "sm90", 1, keys.digest)
    question = Question("quick", {"dtypes": ["bf16"]}, (cells,))
    run_id = store.begin_run(ENVIRONMENT, purpose=Purpose.REPRO, question=question, key_sets=[keys])
    run = store.run(run_id)
    assert run.purpose is Purpose.REPRO
    assert run.question == question
    assert store.key_set(cells) == keys


def test_key_sets_travel_with_their_runs(tmp_path: Path) -> None:
    """A merged store has the key sets of its questions."""
    cell, original = _record_of()
    keys = key_sets([cell], {})["triton==3.2.0", "sm90"]
    cells = RequestedCells("triton==3.2.0", "sm90", 1, keys.digest)
    with Store.open(tmp_path / "theirs") as theirs:
        question = Question("quick", asked=(cells,))
        run = theirs.begin_run(ENVIRONMENT, question=question, key_sets=[keys])
        theirs.add(run, original)
        with Store.open(tmp_path / "ours") as ours:
            ours.merge(theirs)
            assert ours.key_set(cells) == keys
            assert [record.key for record in ours.current(keys.kernels)] == [cell.key]


def test_only_what_a_scan_asked_is_current(store: Store) -> None:
    """A bisection's record is current only after a scan has taken it over."""
    _, original = _record_of()
    store.add(store.begin_run(ENVIRONMENT, purpose=Purpose.BISECT), original)
    assert list(store.current([original.key])) == []
    store.add_cached(store.begin_run(ENVIRONMENT), [original])
    assert [record.key for record in store.current([original.key])] == [original.key]


@pytest.mark.parametrize("form", [1, database.FORM - 1, database.FORM + 1])
def test_a_store_of_another_form_is_refused(form: int, tmp_path: Path) -> None:
    """The message names two ways out, and the file stays as it is."""
    Store.open(tmp_path).close()
    path = tmp_path / "flacheck.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {form}")
    db.close()
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(StoreError, match=rf"of form {form}.*--store, or use the flacheck that"):
            Store.open(tmp_path, create=create)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", [b"not a database " * 500, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_what_is_no_database_is_said_to_be_damaged(tmp_path: Path, text: bytes) -> None:
    """A file that SQLite cannot read gives one message with what to do."""
    (tmp_path / "flacheck.sqlite").write_bytes(text)
    with pytest.raises(StoreError, match=r"flacheck.sqlite: it is damaged.*--store") as caught:
        Store.open(tmp_path)
    assert caught.value.exit_code is Exit.USAGE
    assert (tmp_path / "flacheck.sqlite").read_bytes() == text


def test_damage_in_the_middle_is_said_while_reading(tmp_path: Path) -> None:
    """Overwritten pages give an error when they are read."""
    with Store.open(tmp_path) as store:
        store.add_many(store.begin_run(ENVIRONMENT), [_cell(n) for n in range(200)])
    path = tmp_path / "flacheck.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:40_000] + b"\xa5" * (len(whole) - 40_000))
    with pytest.raises(StoreError, match="damaged"), Store.open(tmp_path, create=False) as store:
        list(store.latest())


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    """A SQLite file with foreign tables is not adopted."""
    with sqlite3.connect(tmp_path / "flacheck.sqlite") as db:
        db.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(StoreError, match="not a flacheck store"):
        Store.open(tmp_path)


def test_a_missing_store_is_a_usage_error_for_a_reader(tmp_path: Path) -> None:
    """Reading needs a store that exists; a scan that died before its first write counts as none."""
    with pytest.raises(UsageError, match="run `flacheck scan` first"):
        Store.open(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()
    (tmp_path / "flacheck.sqlite").touch()
    with pytest.raises(UsageError, match="run `flacheck scan` first"):
        Store.open(tmp_path, create=False)
    Store.open(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file where the folder should be, or no permission, gives one message."""
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(StoreError, match=r"cannot be opened.*--store"):
            Store.open(place)


def test_a_folder_is_no_store_file(tmp_path: Path) -> None:
    """A folder named like the store's file is refused, not followed."""
    (tmp_path / "flacheck.sqlite").mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(tmp_path)


def test_a_store_on_a_read_only_file_system_can_be_read(tmp_path: Path) -> None:
    """A store on a read-only file system can be reported, and a scan gives an error."""
    with Store.open(tmp_path / "s") as store:
        store.add(store.begin_run(ENVIRONMENT), _cell(1))
    script = (
        "from flacheck.errors import StoreError\n"
        "print(len(list(Store.open(sys.argv[1], create=False).latest())))\n"
        "try:\n    Store.open(sys.argv[1]).begin_run(ENVIRONMENT)\nexcept StoreError as error:\n    print(error)\n"
    )
    command = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount --bind -o ro "$0" "$0" && exec "$@"',
        str(tmp_path),
    ]
    if (
        not shutil.which("unshare")
        or subprocess.run([*command, "true"], capture_output=True).returncode
    ):
        pytest.skip("this machine lets nobody mount a folder read-only")
    output = _adder(script, tmp_path / "s", before=command).communicate(timeout=300)[0].splitlines()
    assert output[0] == "1"
    assert "cannot be opened" in output[1]


def test_deciding_and_places_read_indexes_alone(store: Store) -> None:
    """A store of a million records is never read from end to end for them."""
    plans = []
    for sql in (
        "SELECT key, verdict FROM records WHERE key IN (?) ORDER BY key, added, id",
        f"SELECT key FROM records WHERE {TOOLCHAIN} = ? AND {TARGET} = ?",
    ):
        rows = store._rows(f"EXPLAIN QUERY PLAN {sql}", *"ab"[: sql.count("?")])
        plans.append(" ".join(row[3] for row in rows))
    assert "USING COVERING INDEX records_latest" in plans[0]
    assert "USING INDEX records_by_place" in plans[1]
