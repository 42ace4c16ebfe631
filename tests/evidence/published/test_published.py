"""Published results: their files, folders and lookups."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

import flacheck
from flacheck import UsageError, reports
from flacheck.api.results import library_of
from flacheck.capabilities.results.building import (
    Building,
    select,
    unclassified_failures,
    write_manifest,
)
from flacheck.evidence.measured.comparison import FIELD, compare
from flacheck.evidence.published.combinations import Combination, read_combinations
from flacheck.evidence.published.form import (
    GENERATION,
    SCHEMA,
    decode_body,
    decode_header,
    encode,
    file_name,
)
from flacheck.evidence.published.highlights import highlights
from flacheck.evidence.published.library import open_library, why_not_valid
from flacheck.evidence.published.packing import ResultsOrigin, SubjectFacts, pack, unpack
from flacheck.model import KeySet, Purpose, Question, Record, RequestedCells, RequestedPlace
from flacheck.pipeline.job import RunOptions
from flacheck.reports import known_results as known_report
from flacheck.reports import scan as scan_report
from flacheck.reports.display import Display
from flacheck.store import Store
from flacheck.tables import find_shipped_folder
from flacheck.version import __version__
from tests.evidence.measured.test_comparison import launch, measurement
from tests.made_records import PACKAGE, record
from tests.schemas import validate_json

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ORIGIN = ResultsOrigin("0.1.0", "2026-11-24", "3.11")


def answers(toolchain: str = "triton==3.2.0") -> list[Record]:
    """A kernel that compiles with 4 warps and fails with 8."""
    message = "LinearLayout.cpp:1: f: Assertion `x' failed."
    failure: dict[str, Any] = {"code": "FC302", "signature": "FC302:llir:f", "message": message}
    compiling = record(toolchain=toolchain)
    options = {"num_warps": 8, "num_stages": 2}
    return [compiling, record("fails", toolchain, options=options, stage="llir", **failure)]


def with_own_keys(records: list[Record]) -> list[Record]:
    """Return the records under the keys of their cells."""
    return [Record.from_json({**each.to_json(), "key": _key(each)}) for each in records]


def _key(each: Record) -> str:
    return dataclasses.replace(each.cell).key


def test_an_infinite_argument_survives() -> None:
    """JSON has no infinity; without it the cell would have another key."""
    plain = record()
    assert plain.launch is not None
    args = {**plain.launch.args, "most": {"float": math.inf}}
    cell = dataclasses.replace(plain.cell, launch=dataclasses.replace(plain.launch, args=args))
    packed = pack_records(with_own_keys([dataclasses.replace(plain, cell=cell)]))
    content = encode(*packed)
    place = unpack(decode_header(content, "it"), decode_body(content, "it"))
    assert place is not None
    assert place.records[0].launch == cell.launch


def pack_records(
    records: list[Record], configs: Any = "usual", made_up: frozenset[str] = frozenset()
) -> tuple[Any, Any]:
    keys = KeySet({each.key: each.kernel for each in records}, made_up)
    toolchain, target = records[0].toolchain, records[0].target
    request = RequestedCells(toolchain, target, len(records), keys.digest)
    place = RequestedPlace(Question(PACKAGE, asked=(request,)), request, keys)
    return pack(place, records, configs, ORIGIN, SubjectFacts("digest"))


def write_file(folder: Path, header: Any, body: Any) -> None:
    """Write a file of results into a folder, without its manifest."""
    path = folder / file_name(header)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(encode(header, body))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one package under two releases; under 3.4.0 nothing fails."""
    # Packages that are installed on this machine are not compared.
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    for records in (answers(), answers("triton==3.4.0")[:1]):
        write_file(tmp_path, *pack_records(with_own_keys(records)))
    combinations = tmp_path / "list.yaml"
    combinations.write_text(
        "version: 1\ncombinations:\n"
        "  - {package: flash-linear-attention, versions: [0.1.1, 0.3.2], "
        "triton: [3.2.0, 3.4.0], targets: [h100]}\n"
    )
    write_manifest(tmp_path, combinations)
    return tmp_path


def test_a_file_holds_the_question_with_its_records() -> None:
    """The keys are computed from the cells when a file is read."""
    records = with_own_keys(answers())
    header, body = pack_records(records)
    content = encode(header, body)
    place = unpack(decode_header(content, "x"), decode_body(content, "x"))
    assert place is not None
    assert {each.key for each in place.records} == {each.key for each in records}
    assert place.standing().state.value == "bad"
    assert [failure.code for failure in header.place.failures] == ["FC302"]


def test_a_file_is_the_same_in_whatever_order_its_records_came() -> None:
    """The file's bytes do not depend on the order of records."""
    records = with_own_keys(answers())
    assert encode(*pack_records(records)) == encode(*pack_records(records[::-1]))


def test_a_message_holds_no_folder_of_the_machine() -> None:
    """The folder of an installed package is cut; the file within the package is kept."""
    where = "/home/ann/.cache/flacheck/packages/ops-1.0-cp312/ops/k.py:7:1: error: no"
    failing = with_own_keys([record("fails", code="FC204", signature="FC204:a", message=where)])
    header, body = pack_records(failing)
    assert [failure.line for failure in header.place.failures] == ["ops/k.py:7:1: error: no"]
    assert [outcome.message for outcome in body.outcomes] == ["ops/k.py:7:1: error: no"]


def test_a_flacheck_with_other_keys_reads_no_answer() -> None:
    """Results of another key computation are not used."""
    header, body = pack_records(with_own_keys(answers()))
    assert unpack(replace(header, keys="0" * 32), body) is None


@pytest.mark.parametrize("field", ["toolchain", "target", "version"])
def test_counts_of_another_question_are_refused(field: str) -> None:
    """A header with counts of another question is an error."""
    header, _ = pack_records(with_own_keys(answers()))
    other = {"toolchain": "triton==3.4.0", "target": "sm80", "version": "0.1.0"}[field]
    plain = to_builtins(header)
    plain["place"][field] = other
    texts = [json.dumps({"schema": SCHEMA, **plain}).encode(), b"{}"]
    content = b"".join(zstd.compress(text) for text in texts)
    with pytest.raises(UsageError, match="its counts are of another release, GPU or version"):
        decode_header(content, "x")


@pytest.mark.parametrize("damage", ["cut", "byte", "empty"])
def test_a_damaged_file_is_one_error_with_its_name(folder: Path, damage: str) -> None:
    """A file that differs from the manifest is an error with its name."""
    file = folder / "flash-linear-attention-0.1.1" / "usual-triton-3.2.0-sm90.zst"
    content = file.read_bytes()
    broken = {"cut": content[:-1], "byte": content[:-1] + b"\0", "empty": b""}[damage]
    file.write_bytes(broken)
    with pytest.raises(UsageError, match=r"usual-triton-3\.2\.0-sm90\.zst: damaged"):
        flacheck.known("flash-linear-attention", results=folder)


def test_content_that_unpacks_to_something_else_is_refused() -> None:
    """A wrong schema, or a kernel that is not listed, is an error."""
    header, body = pack_records(with_own_keys(answers()))
    content = encode(header, replace(body, cells=body.cells))
    with pytest.raises(UsageError, match="not a file of published results"):
        decode_header(content[:40], "x")
    with pytest.raises(UsageError, match="not a file of published results"):
        decode_body(b"nonsense", "x")
    with pytest.raises(ValueError, match="names kernel 9"):
        replace(body, cells=(replace(body.cells[0], kernel=9),))


@pytest.mark.parametrize(
    "change",
    [
        {"about": "../../x==1"},
        {"about": "x==not a version"},
        {"toolchain": "triton==newest"},
        {"python": "three"},
        {"python_bounds": ("3",)},
        {"flacheck": "<b>"},
        {"date": "yesterday"},
        {"requires": (("x 1.0", "torch>=>2"),)},
        {"target": "sm90/.."},
        {"configs": "every"},
        {"kernels": None},
    ],
)
def test_a_header_of_nonsense_is_refused(change: dict[str, Any]) -> None:
    """A header with an invalid value is one error."""
    header, _ = pack_records(with_own_keys(answers()))
    plain = {"schema": SCHEMA, **to_builtins(header), **change}
    with pytest.raises(UsageError, match="not a file of published results"):
        decode_header(zstd.compress(json.dumps(plain).encode()), "x")


@pytest.mark.parametrize("name", ["../../x.zst", "/etc/x.zst", "a/b/c.zst", "a/../b.zst", "a/b.py"])
def test_a_manifest_leads_to_no_file_outside_of_its_folder(folder: Path, name: str) -> None:
    """A file name outside the folder is an error."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0]["file"] = name
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="not a manifest of published results"):
        open_library(folder)


def test_known_gives_releases_failures_pins_and_what_is_not_built(folder: Path) -> None:
    """The JSON of `known` follows its schema."""
    answer = flacheck.known("flash-linear-attention", target="h100", results=folder)
    states = {place.toolchain: place.standing for place in answer.places}
    assert states["triton==3.2.0"] == "bad"
    assert states["triton==3.4.0"] in ("good", "screened")
    assert [pin.triton for pin in answer.pins] == ["triton==3.4.0"]
    assert [gap.about for gap in answer.not_built] == ["flash-linear-attention==0.3.2"]
    validate_json("known", answer.to_json())


def test_a_failure_in_any_configuration_decides_about_a_release(folder: Path) -> None:
    """A failure among `edges` leaves the release without a pin."""
    header, body = pack_records(with_own_keys(answers("triton==3.4.0")), "edges")
    (folder / file_name(header)).write_bytes(encode(header, body))
    write_manifest(folder)
    answer = flacheck.known("flash-linear-attention==0.1.1", results=folder)
    assert [(place.configs, place.toolchain, place.standing) for place in answer.places] == [
        ("usual", "triton==3.2.0", "bad"),
        ("edges and usual", "triton==3.4.0", "bad"),
    ]
    assert (answer.known_good, answer.pins) == ((), ())
    assert answer.answer == (
        "No: under the best release for flash-linear-attention 0.1.1 on sm90, Triton 3.4.0 "
        "(torch 2.8.0), 1 of 1 kernel fails"
    )
    gate = flacheck.gate(triton="==3.4.0", package=PACKAGE, results=folder, store=folder / "store")
    assert gate.versions[0].state.value == "bad"


def test_the_configurations_of_all_files_are_named(folder: Path) -> None:
    """Several files of a release and GPU are one pair."""
    header, body = pack_records(with_own_keys(answers("triton==3.4.0")[:1]), "own")
    (folder / file_name(header)).write_bytes(encode(header, body))
    write_manifest(folder)
    answer = flacheck.known("flash-linear-attention==0.1.1", results=folder)
    assert [(pair.configs, pair.toolchain) for pair in answer.known_good] == [
        ("own and usual", "triton==3.4.0")
    ]
    assert answer.recommendation == "pin torch==2.8.0 triton==3.4.0"


def test_a_matrix_chooses_its_configurations_itself(tmp_path: Path) -> None:
    """A matrix entry with other configurations is an error."""
    file = tmp_path / "x.yaml"
    entry = "{matrix: full, triton: [3.9.0], targets: [sm90]}"
    file.write_text(f"version: 1\ncombinations:\n  - {entry}\n")
    with pytest.raises(UsageError, match="write configs: own"):
        read_combinations(file)


def test_the_page_of_known_begins_with_pins(folder: Path) -> None:
    """The pins of the answer stand at the top of the page."""
    answer = flacheck.known("flash-linear-attention==0.1.1", results=folder)
    pins = list(known_report.report(answer).pins)
    assert ("flash-linear-attention==0.1.1 on sm90", "triton==3.4.0") in pins


def test_known_takes_a_range_of_versions(folder: Path) -> None:
    """The best version is named with its best release."""
    answer = flacheck.known("Flash_Linear-Attention>=0.1,<0.2", triton="3.4.0", results=folder)
    assert [place.about for place in answer.places] == [PACKAGE]
    assert answer.answer.startswith("Yes: flash-linear-attention 0.1.1 on sm90 compiles under")
    failing = flacheck.known("flash-linear-attention<0.2", triton="3.2.0", results=folder)
    assert failing.answer.startswith("No: under the best release for flash-linear-attention 0.1.1")


def test_known_takes_torch_for_the_releases_that_it_admits(folder: Path) -> None:
    """torch 2.8 selects Triton 3.4.0."""
    answer = flacheck.known("flash-linear-attention==0.1.1", torch="2.8", results=folder)
    assert [place.toolchain for place in answer.places] == ["triton==3.4.0"]


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("flash-linear-attention==0.2.9", "nearest published version is 0.1.1"),
        ("flash-linear-atention", "did you mean"),
        ("flash-linear-attention>=1", "is >=1; there are 0.1.1"),
        ("flash-linear-attention[all]", "give NAME, NAME==VERSION or a range"),
    ],
)
def test_an_unknown_package_names_the_nearest(folder: Path, package: str, message: str) -> None:
    """The message names the nearest version or name."""
    with pytest.raises(UsageError, match=message):
        flacheck.known(package, results=folder)


def test_an_update_takes_a_whole_folder_or_nothing(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file leaves the earlier results as they are."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(cache))
    flacheck.update_results(folder)
    before = sorted(path.name for path in (cache / "results").rglob("*.zst"))
    next(folder.glob("*/*3.4.0*.zst")).write_bytes(b"x" * 50)
    with pytest.raises(UsageError, match="nothing was changed"):
        flacheck.update_results(folder)
    assert sorted(path.name for path in (cache / "results").rglob("*.zst")) == before
    assert len(before) == 2


def test_only_web_addresses_are_fetched() -> None:
    """Only http and https addresses are fetched."""
    with pytest.raises(UsageError, match="only https and http"):
        flacheck.update_results("file:///etc")


def test_shards_divide_the_combinations(folder: Path) -> None:
    """Each combination is in one shard."""
    every = read_combinations(folder / "combinations.yaml")
    parts = [select(every, f"{number}/2", (), True) for number in (1, 2)]
    assert sorted(each.name for part in parts for each in part) == sorted(e.name for e in every)


def test_a_file_of_combinations_with_a_mistake_is_one_error(tmp_path: Path) -> None:
    """The error names the wrong field."""
    file = tmp_path / "x.yaml"
    file.write_text("version: 1\ncombinations:\n  - {package: a, triton: [3.2.0]}\n")
    with pytest.raises(UsageError, match="missing required field `targets`"):
        read_combinations(file)


@pytest.mark.slow
def test_the_shipped_results_are_whole_and_of_keys_that_this_flacheck_computes() -> None:
    """Every shipped file is readable, classified and small."""
    library = open_library(find_shipped_folder("results"))
    entries = library.entries()
    assert entries
    for entry in entries:
        place = library.place(entry)
        assert place is not None
        assert not any("/packages/" in each.message for each in place.records)
        assert not list(unclassified_failures(place.records))
    assert sum(entry.bytes for entry in entries) < 5_000_000
    assert library.combinations()


@pytest.mark.network
def test_shipped_results_hold() -> None:
    """Twenty cells of two files compile as they are published.

    The files of packages are older than the launches that a capture makes now, which verification
    reports. They are built again with the measured results.
    """
    outcome = flacheck.verify_results(
        results=find_shipped_folder("results"), sample=20, seed=5, places=2
    )
    assert outcome.cells
    assert [each for each in outcome.broken if each.what != "keys"] == []


@pytest.mark.network
def test_a_failing_import_of_another_code_does_not_hold(tmp_path: Path) -> None:
    """Verification compares the capture's own records with the published ones."""
    name = "flash-attn-triton-0.1.1/usual-triton-3.9.0-sm90.zst"
    content = (find_shipped_folder("results") / name).read_bytes()
    header = decode_header(content, name)
    text = json.dumps(to_builtins(decode_body(content, name))).replace(
        "FC102:import", "FC000:import"
    )
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(encode(header, json.loads(text)))
    write_manifest(tmp_path)
    outcome = flacheck.verify_results(results=tmp_path, sample=1)
    # The drawn cell may be one of a kernel that fails at the same import.
    changes = []
    for change in outcome.broken:
        if change.kernel.endswith(":__init__"):
            changes.append((change.kernel, change.what))
    assert changes == [
        ("flash_attn:__init__", "signature"),
        ("flash_attn_triton:__init__", "signature"),
    ]


@pytest.mark.parametrize(
    ("build_python", "bounds", "is_open", "is_valid"),
    [
        ("3.99", (), False, True),
        ("3.99", (), True, False),
        ("3.99", ("3.2",), False, True),
        ("3.99", ("3.98",), False, False),
    ],
)
def test_results_of_another_python_answer_where_launches_cannot_differ(
    build_python: str, bounds: tuple[str, ...], is_open: bool, is_valid: bool
) -> None:
    """Results of another Python are used unless the package compares versions between both."""
    header, _ = pack_records(with_own_keys(answers()))
    other = replace(
        header,
        package_digest=None,
        python=build_python,
        python_bounds=bounds,
        reads_python_version=is_open,
    )
    assert (why_not_valid(other) is None) == is_valid


def test_resources_that_matter_are_in_the_header() -> None:
    """The header has the worst spills, memory and time of each kernel."""
    shared = {"shared": 95, "shared_limit": 100, "spills": 8}
    records = [record(resources=shared), record(resources={**shared, "spills": 16}, seconds=12.0)]
    kinds = {(each.kind, each.value, each.of, each.cells) for each in highlights(records)}
    assert kinds == {("shared", 95, 100, 2), ("spills", 16, None, 2), ("slow", 12, None, 1)}


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    """The error names the manifest."""
    with pytest.raises(UsageError, match=r"manifest\.json: cannot be read"):
        library_of(tmp_path)


def test_known_names_the_compiled_sizes(tmp_path: Path) -> None:
    """JSON has the numbers, a terminal one sentence for each version."""
    launch = {"args": {"K": {"constexpr": 64}}, "omitted": []}
    write_file(tmp_path, *pack_records(with_own_keys([record(launch=launch)])))
    write_manifest(tmp_path)
    answer = flacheck.known("flash-linear-attention==0.1.1", results=tmp_path)
    assert [place.sizes and place.sizes.head_sizes for place in answer.places] == [(64,)]
    assert "Compiled: head size 64." in rendered(answer)


def test_known_names_kernels_of_which_every_launch_is_untested(tmp_path: Path) -> None:
    """A terminal names a few of them, JSON all."""
    failing = [
        record("fails", kernel=f"m:k{number}", code="FC100", signature="s", stage="ttir")
        for number in range(7)
    ]
    records = with_own_keys([record(), *failing])
    made_up = frozenset(each.key for each in records if each.verdict.value == "fails")
    header, body = pack_records(records, made_up=made_up)
    write_file(tmp_path, header, body)
    write_manifest(tmp_path)
    answer = flacheck.known("flash-linear-attention==0.1.1", results=tmp_path)
    (place,) = answer.places
    assert place.untested_kernels == tuple(f"m:k{number}" for number in range(7))
    assert "3.2.0 · sm90: k0, k1, k2, k3, and 3 others" in rendered(answer)


def test_answers_by_older_launches_carry_a_note(tmp_path: Path) -> None:
    """The verdicts stay, since each holds for its own launch; `known` has a sentence."""
    header, body = pack_records(with_own_keys(answers()))
    assert not header.has_older_launches
    write_file(tmp_path, replace(header, generation=1), body)
    write_manifest(tmp_path)
    answer = flacheck.known("flash-linear-attention==0.1.1", results=tmp_path)
    (place,) = answer.places
    assert (place.older_launches, place.standing) == (True, "bad")
    assert "1 pair of release and GPU of flash-linear-attention==0.1.1" in rendered(answer)
    assert "launches of an older flacheck" in rendered(answer)


def test_a_file_of_before_has_older_launches(folder: Path) -> None:
    """A header without a generation is of the first one; a matrix has no captured launches."""
    header, _ = pack_records(with_own_keys(answers()))
    plain = {"schema": SCHEMA, **to_builtins(header)}
    del plain["generation"]
    old = decode_header(zstd.compress(json.dumps(plain).encode()), "x")
    assert old.has_older_launches
    place = replace(old.place, version=None)
    assert not replace(old, about="full", place=place).has_older_launches


def test_a_file_by_older_launches_is_built_again(tmp_path: Path) -> None:
    """The flacheck that wrote a file has the same version."""
    header, body = pack_records(with_own_keys(answers()))
    toolchain = header.toolchain
    combination = Combination(header.about, "usual", (toolchain,), "sm90", True, True)
    building = Building(tmp_path / "list.yaml", [combination], tmp_path, RunOptions())
    missing = []
    for generation in (GENERATION, 1):
        changed = replace(header, flacheck=__version__, generation=generation)
        write_file(tmp_path, changed, body)
        missing.append(building.missing(combination))
    assert missing == [[], [toolchain]]


def rendered(answer: Any) -> str:
    """Return an answer as markdown, each paragraph in a line."""
    return "".join(reports.render("markdown", known_report.report(answer), Display(width=80)))


def test_a_file_has_the_measurements_of_its_release() -> None:
    """They are read as they were written; one of another release is refused."""
    header, body = pack_records(with_own_keys(answers()))
    old, new = "triton==3.1.0", header.toolchain
    (slow,) = compare([measurement(launch("hgrn", {old: 10.0, new: 14.0}))], old, new)
    content = encode(replace(header, measured=(slow,)), body)
    assert decode_header(content, "x").measured == (slow,)
    with pytest.raises(ValueError, match="of another release"):
        replace(header, measured=(replace(slow, after="triton==9.9.9"),))


def test_known_shows_published_and_own_measurements(folder: Path, tmp_path: Path) -> None:
    """The user's own measurement takes the place of a published one on the same GPU."""
    old, new = "triton==3.1.0", "triton==3.2.0"
    published = measurement(launch("gla", {old: 10.0, new: 15.0}))
    header, body = pack_records(with_own_keys(answers()))
    measured = tuple(compare([published], old, new))
    write_file(folder, replace(header, measured=measured), body)
    write_manifest(folder, folder / "list.yaml")
    store = tmp_path / "store"

    def clauses() -> list[str]:
        answer = flacheck.known("flash-linear-attention", results=folder, store=store)
        validate_json("known", answer.to_json())
        page = "".join(reports.render("markdown", known_report.report(answer), Display()))
        found = [each for place in answer.places for each in place.measured]
        assert all(each.clause in page.replace("\\", "") for each in found)
        return [each.clause for each in found]

    slower = "on an H200: 1 of 1 operators slower (gla 1.50), 0 faster, no wrong output"
    assert clauses() == [slower]
    shown = flacheck.report(package="flash-linear-attention==0.1.1", results=folder, store=store)
    document = json.loads(
        "".join(reports.render("json", scan_report.report(shown.view), Display()))
    )
    validate_json("run", document)
    assert [each["to"] for each in document["summary"]["measured"]] == [new]
    page = "".join(reports.render("html", scan_report.report(shown.view), Display()))
    assert f"3.2.0 beside 3.1.0, {slower}" in page
    flacheck.results_site(tmp_path / "site", results=folder)
    page = (tmp_path / "site/flash-linear-attention.html").read_text()
    assert f"Measured beside Triton 3.1.0, {slower} (driver 13.0, 2026-11-29, 1 launches)" in page
    own = measurement(launch("gla", {old: 10.0, new: 10.0}))
    own = replace(own, about=PACKAGE)
    with Store.open(store) as opened:
        run = opened.begin_run({}, PACKAGE, purpose=Purpose.MEASURE)
        opened.finish_run(run, {FIELD: own.to_json()})
    assert clauses() == [slower.replace("1 of 1", "0 of 1").replace(" (gla 1.50)", "")]


def test_no_shipped_file_names_a_folder_of_the_machine_that_built_it() -> None:
    """A reason or a message has the path below the package, not below that machine's cache."""
    folder = re.compile(r"/(?:tmp|work|home|mnt)/[^\s'\"]+")
    files = sorted(find_shipped_folder("results").rglob("*.zst"))
    assert files
    for file in files:
        content = file.read_bytes()
        text = f"{decode_header(content, file.name)}{decode_body(content, file.name)}"
        assert not folder.search(text), file.name
