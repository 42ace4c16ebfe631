"""The questions of a store's scans, and how the records combine into their progress."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from flacheck.evidence.analysis.standings import standings
from flacheck.model import KeySet, Purpose, Question, Record, RequestedCells
from flacheck.store import Store, form, questions
from tests.made_records import asked_of, failure, record, scanned

CELLS = [record(kernel=f"m:kernel{number}") for number in range(6)]


def begin(store: Store, request: list[Record], records: list[Record], about: str = "seeds") -> str:
    """Store a scan that requests some cells and has records of others."""
    question, sets = asked_of(request, about)
    run = store.begin_run({}, about, {}, question=question, key_sets=sets)
    store.add_many(run, records)
    return run


def progress(store: Store) -> list[tuple[str, str, bool]]:
    """How every question in force stands."""
    places = questions.in_force(store)
    rows = standings(places, store.current)
    return [(each.question.name, each.progress, each.is_good) for each in rows]


def test_an_interrupted_scan_is_partial(store: Store) -> None:
    """Its missing cells stay part of the question."""
    begin(store, CELLS, CELLS[:2])
    assert progress(store) == [("seeds", "2/6", False)]


def test_shards_of_one_question_make_a_whole(store: Store) -> None:
    """Each shard requests all cells and compiles its own part."""
    begin(store, CELLS, CELLS[:3])
    assert progress(store) == [("seeds", "3/6", False)]
    begin(store, CELLS, CELLS[3:])
    assert progress(store) == [("seeds", "6/6", True)]


def test_shards_of_two_captures_do_not(store: Store) -> None:
    """The later capture defines the cells, and a note reports that the captures differ."""
    first = begin(store, CELLS[:5], CELLS[:3], "fla==1")
    second = begin(store, CELLS[1:], CELLS[4:], "fla==1")
    assert progress(store) == [("fla==1", "4/5", False)]
    places = questions.of_runs(store, [store.run(first), store.run(second)])
    assert questions.mixed_captures(places) == [("fla==1", "triton==3.2.0", "sm90")]
    assert questions.mixed_captures(questions.of_runs(store, [store.run(first)])) == []


def test_a_record_of_any_scan_answers(store: Store) -> None:
    """A cell that another matrix compiled counts as compiled."""
    begin(store, CELLS, CELLS, "whole")
    begin(store, CELLS[:2], [], "part")
    assert progress(store) == [("part", "2/2", True), ("whole", "6/6", True)]


def test_only_scans_ask(store: Store) -> None:
    """A bisection of one cell makes no release good."""
    question, sets = asked_of(CELLS[:1])
    run = store.begin_run({}, "bisect", {}, Purpose.BISECT, question, sets)
    store.add_many(run, CELLS[:1])
    assert progress(store) == []
    assert questions.of_runs(store, [store.run(run)]) == []


def test_a_capture_that_did_not_end_asks_nobody_knows_what(store: Store) -> None:
    """Its progress is unknown until a later capture ends; an earlier complete scan stays valid."""
    open_question = Question("fla==1", asked=(RequestedCells("triton==3.2.0", "sm90"),))
    store.begin_run({}, "fla==1", {}, question=open_question)
    assert progress(store) == [("fla==1", "?/?", False)]
    begin(store, CELLS, CELLS, "fla==1")
    assert progress(store) == [("fla==1", "6/6", True)]
    store.begin_run({}, "fla==1", {}, question=open_question)
    assert progress(store) == [("fla==1", "6/6", True)]


def test_an_edited_matrix_takes_the_place_of_what_it_was(store: Store) -> None:
    """The failure of a removed kernel is not part of the question."""
    scanned(store, [*CELLS[:2], failure(kernel="m:gone")])
    assert progress(store) == [("seeds", "3/3", False)]
    scanned(store, CELLS[:3])
    assert progress(store) == [("seeds", "3/3", True)]


def test_a_narrower_question_is_one_of_its_own(store: Store) -> None:
    """Its name includes the options that narrow it."""
    scanned(store, CELLS)
    scanned(store, CELLS[:1], selection={"kernels": ["kernel0"], "targets": ["sm90"]})
    assert {name for name, _, _ in progress(store)} == {"seeds", "seeds --kernel kernel0"}


def test_a_copy_of_a_launches_file_asks_the_same(store: Store) -> None:
    """A question is its keys, not the file's name; two files of one name are two questions."""
    scanned(store, CELLS, "launches", source="/a/launches.jsonl")
    scanned(store, CELLS, "copy", source="/b/copy.jsonl")
    assert progress(store) == [("copy", "6/6", True)]
    scanned(store, CELLS[:1], "launches", source="/c/launches.jsonl")
    assert len(progress(store)) == 2


def test_questions_are_compared_by_release_and_target(store: Store) -> None:
    """Adding a release leaves the others complete."""
    scanned(store, CELLS)
    newer = [record(kernel="m:kernel0", toolchain="triton==3.4.0")]
    begin(store, [*CELLS, *newer], CELLS)
    places = standings(questions.in_force(store), store.current)
    assert {each.toolchain: each.progress for each in places} == {
        "triton==3.2.0": "6/6",
        "triton==3.4.0": "0/1",
    }


def test_a_key_set_says_which_launches_were_made_up(tmp_path: Path) -> None:
    """Its digest differs from that of a set whose launches were seen."""
    observation = KeySet({"a" * 8: "m:k", "b" * 8: "m:k"})
    made_up = KeySet(observation.kernels, frozenset({"b" * 8}))
    assert observation.digest != made_up.digest
    assert form.key_set(form.pack_key_set(made_up)) == made_up


def test_a_key_set_keeps_the_alternatives_in_their_order() -> None:
    """A key set without alternatives is stored as before."""
    a, b, c, d = (letter * 8 for letter in "abcd")
    plain = KeySet({a: "m:k", b: "m:other"})
    keys = KeySet(plain.kernels, frozenset({a, d, c}), {a: [d, c]})
    body = {"kernels": {a: "m:k", b: "m:other"}, "made_up": []}
    assert zlib.decompress(form.pack_key_set(plain)) == json.dumps(body).encode()
    assert form.key_set(form.pack_key_set(keys)) == keys
    swap = KeySet(plain.kernels, keys.made_up, {a: [c, d]})
    assert len({plain.digest, keys.digest, swap.digest}) == 3
    assert list(keys.possible) == [a, b, d, c]
    assert keys.of(lambda name: name == "m:k") == KeySet({a: "m:k"}, keys.made_up, {a: [d, c]})
    assert keys.of(lambda name: name == "m:other") == KeySet({b: "m:other"})


def test_shards_of_two_captures_are_found_until_one_is_whole(store: Store) -> None:
    """A later capture that was scanned as a whole ends the note."""
    begin(store, CELLS[:5], CELLS[:3], "fla==1")
    begin(store, CELLS[1:], CELLS[4:], "fla==1")
    places = [("fla==1", "triton==3.2.0", "sm90")]
    assert questions.unfinished_shards(store) == places
    begin(store, CELLS[1:], CELLS, "fla==1")
    assert questions.unfinished_shards(store) == []


def test_a_question_names_what_narrows_it() -> None:
    """The name has the options as typed; releases and GPUs are left out."""
    selection = {"kernels": ["a*", "b"], "num_warps": [4], "targets": ["sm90"], "toolchains": ["x"]}
    question = Question("quick", selection)
    assert question.name == "quick --kernel a*,b --num-warps 4"
    assert Question("quick", {"targets": ["sm80"]}).name == "quick"
