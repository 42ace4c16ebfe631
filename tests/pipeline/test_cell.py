"""CELL on a command line: what selects one cell, what selects several, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import judge
from flacheck.errors import UsageError
from flacheck.model import (
    Attempt,
    Cell,
    Cut,
    Imported,
    Kernel,
    Outcome,
    Purpose,
    Record,
    Stubbed,
    Unit,
    digest,
)
from flacheck.model.kernel import Origin
from flacheck.pipeline import planning
from flacheck.pipeline import resolved_cell as cell
from flacheck.pipeline.job import Job, RunOptions
from flacheck.pipeline.plan import Plan
from flacheck.pipeline.resolved_cell import ResolvedCell, resolve_cell
from flacheck.source.packages import package as packages
from flacheck.source.packages import source_trees
from flacheck.source.packages.package import Package
from flacheck.store import Store
from flacheck.subjects.inputs import corpus
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains import Resolver
from tests.cli.test_cli import flacheck
from tests.subjects.inputs.launches.test_launches import HEADER, LAUNCH, launch, write
from tests.subjects.inputs.launches.test_launches import KERNEL as CUT

ONE = Selection(("chunk_fwd_o",), ("sm90",), ("bf16",), (4,), (2,), ("3.2.0",))
ASSERTION = "LinearLayout.cpp:562: LinearLayout LinearLayout::reshapeOuts(int) const: Assertion `{}' failed."


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise if anything is compiled."""

    def refuse(*arguments: object) -> Iterator[Record]:
        raise AssertionError("nothing is to be compiled")

    monkeypatch.setattr(cell, "records_of", refuse)


@pytest.fixture(scope="module")
def some() -> list[Cell]:
    """Twenty-odd cells of one kernel of ours, without its autotuner's list, which a store does not
    keep."""
    selection = replace(ONE, dtypes=(), num_warps=(1, 2, 4, 8, 16), num_stages=())
    cells = planning.plan_job(Job(Subject("quick"), selection)).cells
    return [replace(cell, configs=()) for cell in cells]


def judge_as(cell: Cell, says: str | None = None) -> Record:
    """The record of a cell that fails by an assertion, or compiles."""
    if says is None:
        return judge.judge(cell, Attempt(Outcome.FINISHED, stage="cubin"))
    log = ASSERTION.format(says)
    return judge.judge(cell, Attempt(Outcome.DIED, stage="ttgir", signal="SIGABRT", log=log))


def put(
    store: Store, cells: Sequence[Cell], says: Callable[[Cell], str | None] = lambda cell: None
) -> list[Record]:
    records = [judge_as(cell, says(cell)) for cell in cells]
    store.add_cells(cells)
    store.add_many(store.begin_run({}), records)
    return records


def refuse(store: Store, what: str | None, selection: Selection = Selection()) -> list[str]:
    """The lines of the message."""
    with pytest.raises(UsageError) as caught:
        resolve_cell(what, selection, store, Purpose.REPRO)
    return str(caught.value).splitlines()


def test_a_key_or_eight_characters_of_it_name_a_cell(store: Store, some: list[Cell]) -> None:
    """The same cell is taken, so that only the release differs in the next compile."""
    put(store, some)
    for name in (some[3].key, some[3].key[:8]):
        cell = resolve_cell(name, Selection(), store, Purpose.REPRO)
        assert cell.cell == some[3]
        assert cell.cell.key == some[3].key
        assert cell.record is not None
        assert cell.warnings == ()
    assert cell.under("triton==3.4.0") == replace(some[3], toolchain="triton==3.4.0")


def test_a_plan_of_a_chosen_cell_differs_by_release_alone(store: Store, some: list[Cell]) -> None:
    """The unsupported targets of its releases may differ too."""
    resolver = Resolver()
    names = [*resolver("3.1.0"), *resolver("3.2.0")]
    plan = ResolvedCell(some[0]).plan(
        [resolver.choices[name] for name in names], "bisect x", Purpose.BISECT
    )
    assert [cell.toolchain for cell in plan.cells] == ["triton==3.1.0", "triton==3.2.0"]
    assert plan.cells[1].key == some[0].key


def test_an_unknown_short_or_ambiguous_key_is_refused_with_candidates(
    store: Store, some: list[Cell]
) -> None:
    """At most a screenful of candidates is listed, the failing ones first."""
    put(store, some, lambda cell: "it holds" if cell is some[5] else None)
    first, *rest = refuse(store, "0" * 8)
    assert first.endswith("begins with 00000000; name one by its key:")
    assert some[5].key[:12] in rest[0]
    assert "FC302" in rest[0]
    assert "triton==3.2.0  sm90" in rest[0]
    assert len(rest) == 17
    assert rest[-1] == f"  and {len(some) - 16} more"
    assert "too short" in refuse(store, some[0].key[:7])[0]
    assert "names no cell" in refuse(store, "chunk_fwd_o")[0]


def test_flags_name_the_first_of_failing_cells_of_one_signature(
    store: Store, some: list[Cell]
) -> None:
    """The first cell by key stands for a signature, which ignores quantities in the message."""
    put(store, some, lambda cell: "it holds" if cell.options["num_warps"] == 8 else None)
    failing = sorted(cell.key for cell in some if cell.options["num_warps"] == 8)
    assert len(failing) > 1
    for selection in (
        Selection(),
        Selection(num_warps=(8,), targets=("h100",), toolchains=("==3.2.0",)),
    ):
        assert resolve_cell(None, selection, store, Purpose.REPRO).cell.key == failing[0]


def test_flags_name_the_only_slow_compile_where_nothing_fails(
    store: Store, some: list[Cell]
) -> None:
    """The compile is slow beside the stored ones of other releases."""
    newer = replace(some[0], toolchain="triton==3.4.0")
    put(store, [*some, newer])
    slow = judge.judge(newer, Attempt(Outcome.FINISHED, stage="cubin", seconds=60.0))
    quick = [
        judge.judge(cell, Attempt(Outcome.FINISHED, stage="cubin", seconds=2.0)) for cell in some
    ]
    store.add_many(store.begin_run({}), [*quick, slow])
    assert resolve_cell(None, Selection(toolchains=("3.4.0",)), store, Purpose.REPRO).cell == newer
    assert (
        "no cell of the store that fails"
        in refuse(store, None, Selection(toolchains=("3.2.0",)))[0]
    )


@pytest.mark.parametrize(("torch", "how"), [("/there", Imported), (None, Stubbed)])
def test_a_kernel_recorded_beside_torch_is_loaded_beside_what_there_is(
    store: Store,
    some: list[Cell],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    torch: str | None,
    how: type[Imported] | type[Stubbed],
) -> None:
    """The cell has the same key whether torch or its stand-in is used."""
    package = Package("fla", "1.0", str(tmp_path), "d" * 16, {})
    (tmp_path / "fla").mkdir()
    monkeypatch.setattr(packages, "installed_package", lambda spec: package)
    monkeypatch.setattr(cell, "torch_folder", lambda: torch)
    name = "fla.ops:kernel"
    origin = Imported("fla.ops", "kernel")
    kernel = Kernel(name, package.identity, digest([package.digest, name]), origin)
    other_cell = replace(some[0], kernel=kernel)
    put(store, [other_cell])
    choice = resolve_cell(other_cell.key, Selection(), store, Purpose.REPRO)
    assert (choice.cell.key, choice.warnings) == (other_cell.key, ())
    assert choice.cell.kernel.origin == how("fla.ops", "kernel")
    assert list(choice.packages) == [package.identity]


def store_record(store: Store, cell: Cell, origin: Origin, **changes: Any) -> str:
    """Store the cell's record with another origin of the kernel, and return its key."""
    kernel = Kernel("fla.ops:kernel", "fla==1.0", "d" * 16, origin)
    stored_cell = replace(cell, kernel=kernel, **changes)
    put(store, [stored_cell])
    return stored_cell.key


def test_a_stored_source_is_admitted_or_trusted(store: Store, some: list[Cell]) -> None:
    """A store may come from elsewhere."""
    key = store_record(store, some[0], Cut("import os\n", "kernel"))
    assert "import of os" in refuse(store, key)[0]
    cell = resolve_cell(key, Selection(), store, Purpose.BISECT, trust=True)
    assert cell.plan([], "bisect", Purpose.BISECT).trust
    good = store_record(store, some[1], Cut("import triton\n", "kernel"))
    assert not resolve_cell(good, Selection(), store, Purpose.BISECT).trust


@pytest.mark.parametrize("option", ["extern_libs", "ir_override", "pre_hook"])
@pytest.mark.parametrize("place", ["options", "configs"])
def test_a_stored_option_names_no_file(
    store: Store, some: list[Cell], option: str, place: str
) -> None:
    """No scan stores such an option."""
    values = {option: "/etc/passwd"}
    assert some[0].launch is not None
    launch = replace(some[0].launch, configs=({"kwargs": {}, **values},))
    changes = {"options": {"options": values}, "configs": {"launch": launch}}[place]
    key = store_record(store, some[0], Cut("import triton\n", "kernel"), **changes)
    assert f"option {option!r} is unknown" in refuse(store, key)[0]


@pytest.mark.parametrize("origin", [Imported("fla.ops", "k"), Stubbed("fla.ops", "k")])
def test_a_stored_cell_installs_no_package(
    store: Store, some: list[Cell], monkeypatch: pytest.MonkeyPatch, origin: Origin, tmp_path: Path
) -> None:
    """This includes the cell of a CUDA unit; a package that the user installed is used."""
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    requests: list[str] = []
    monkeypatch.setattr(cell, "provide_package", lambda spec: requests.append(spec))
    monkeypatch.setattr(source_trees, "provide_sources", lambda spec: requests.append(spec))
    for number, part in enumerate((origin, Unit("kernel.cu"))):
        key = store_record(store, some[number], part)
        assert "fla==1.0, which is not installed here: --trust" in refuse(store, key)[0]
    assert not requests


def test_a_stored_cell_imports_no_module_but_of_its_package(
    store: Store, some: list[Cell], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Importing one of Python's own modules may run commands."""
    package = Package("fla", "1.0", str(tmp_path), "d" * 16, {})
    monkeypatch.setattr(packages, "installed_package", lambda spec: package)
    for number, module in enumerate(("antigravity", "torch.utils.collect_env")):
        key = store_record(store, some[number], Imported(module, "kernel"))
        assert f"{module} is no module of fla==1.0" in refuse(store, key)[0]


def test_flags_that_leave_several_signatures_or_none_are_refused(
    store: Store, some: list[Cell]
) -> None:
    """The message has one example of each signature, or the matching cells that do not fail."""
    put(store, some, lambda cell: {2: "this holds", 8: "that holds"}.get(cell.options["num_warps"]))
    first, *rest = refuse(store, None)
    assert "fail in 2 ways" in first
    assert len(rest) == 2
    assert {line.split()[-2] for line in rest} == {"num_warps=2", "num_warps=8"}
    first, *rest = refuse(store, None, Selection(num_warps=(4,)))
    assert "no cell of the store that fails" in first
    assert rest
    assert all(" compiles " in line for line in rest[:5])
    assert "nothing to choose from" in refuse(store, None, Selection(num_warps=(64,)))[0]


def test_of_several_cells_of_a_matrix_the_verdicts_decide(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cells are compiled together before one is chosen."""
    shape = planning.plan_job(Job(Subject("quick"), ONE)).cells
    runs: list[tuple[Purpose, RunOptions | None]] = []

    def records(plan: Plan, store: Store, options: RunOptions | None) -> list[Record]:
        runs.append((plan.purpose, options))
        cells = plan.cells
        return put(store, cells, lambda cell: "it holds" if cell is cells[1] else None)

    monkeypatch.setattr(cell, "records_of", records)
    assert len(shape) > 1
    options = RunOptions(jobs=1)
    choice = resolve_cell("quick", ONE, store, Purpose.BISECT, options=options)
    assert choice.cell == shape[1]
    assert runs == [(Purpose.BISECT, options)]


def test_a_line_of_a_launches_file_is_a_cell(store: Store, tmp_path: Path) -> None:
    """The line needs a release and a target, and nothing is compiled to choose the cell.

    A count line stands for its launch.
    """
    plain = {**LAUNCH["launch"], "configs": []}
    first, second = (
        launch(id=letter * 16, launch=plain, options={"num_warps": n})
        for letter, n in (("a", 4), ("b", 2))
    )
    file = write(tmp_path, HEADER, first, second, {"of": "b" * 16, "count": 3}, {"end": True})
    selection = Selection(targets=("sm80",), toolchains=("3.3.0",))
    by_name = {
        line: resolve_cell(f"{file}:{line}", selection, store, Purpose.REPRO).cell
        for line in (2, 3, 4)
    }
    assert by_name[2].toolchain == "triton==3.3.0"
    assert by_name[2].target == "sm80"
    assert by_name[2].kernel.origin == Cut(CUT, "scale")
    assert (by_name[3].options, by_name[4]) == ({"num_warps": 2}, by_name[3])
    for line in (1, 5, 9):
        assert "no launch is on that line" in refuse(store, f"{file}:{line}", selection)[0]


def test_a_kernel_that_changed_since_is_taken_as_it_is_now(store: Store, some: list[Cell]) -> None:
    """A warning names the change, and the record of the old source is not used."""
    old = replace(some[0], kernel=replace(some[0].kernel, digest="0" * 32))
    put(store, [old])
    cell = resolve_cell(old.key, Selection(), store, Purpose.REPRO)
    assert cell.cell == some[0]
    assert cell.record is None
    assert "has changed since" in cell.warnings[0]


def test_a_record_without_its_cell_is_refused(store: Store, some: list[Cell]) -> None:
    """The message names the command that stores its source."""
    store.add_many(store.begin_run({}), [judge_as(some[0])])
    assert "stored without its source" in refuse(store, some[0].key)[0]


def test_source_in_a_store_is_believed_no_more_than_in_a_file(
    store: Store, some: list[Cell]
) -> None:
    """A store may have been merged from anywhere."""
    kernel = Kernel("m:k", None, "1" * 32, Cut("import os\nos.abort()\n", "k"))
    bad, good = (
        replace(some[0], kernel=kernel),
        replace(some[0], kernel=replace(kernel, origin=Cut(CUT, "k"))),
    )
    put(store, [bad])
    assert "import of os" in refuse(store, bad.key)[0]
    good = replace(good, kernel=replace(good.kernel, digest="2" * 32))
    put(store, [good])
    assert resolve_cell(good.key, Selection(), store, Purpose.REPRO).cell == good


def test_a_kernel_of_ours_that_is_gone_is_said(
    store: Store, some: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removed kernel cannot be compiled, and the message names it."""
    put(store, some[:1])
    monkeypatch.setattr(corpus, "load", dict)
    assert f"{some[0].kernel.name} was removed from flacheck" in refuse(store, some[0].key)[0]


def bisect(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return flacheck("bisect", *args, cwd=cwd)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["0123456789ab"], "no store at"),
        (["--kernel", "chunk_fwd_o"], "no store at"),
        (["quick", "--find", "blame"], "--find blame"),
        (["quick", "--format", "markdown"], "allowed are table, json"),
        (["quick", "--target", "sm42"], "sm42"),
        (["missing.jsonl:3", "--triton", "3.2.0"], "missing.jsonl: cannot be read"),
    ],
)
def test_bad_input_of_bisect_is_one_message_and_2(
    tmp_path: Path, command: list[str], message: str
) -> None:
    """The command prints no traceback, and nothing on stdout."""
    outcome = bisect(*command, cwd=tmp_path)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert message in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.network
def test_the_gated_delta_rule_over_all_releases(tmp_path: Path) -> None:
    """With 8 warps our kernel has four failures of two kinds.

    A repeated bisection compiles nothing.
    """
    which = [
        "-k",
        "gated_delta_rule.chunk_fwd_h",
        "--dtype",
        "bf16",
        "--target",
        "sm90",
        "--num-warps",
        "8",
    ]
    first = bisect("quick", *which, "--triton", "3.2.0", "--format", "json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    sides = [
        (change["before"][8:], change["after"][8:], change["kind"])
        for change in document["changes"]
    ]
    assert ("3.1.0", "3.2.0", "cause") in sides
    assert ("3.3.1", "3.4.0", "pass") in sides
    (repair,) = (change for change in document["changes"] if change["after"] == "triton==3.4.0")
    assert (repair["torch_before"], repair["torch_after"]) == (["2.7.1"], ["2.8.0"])
    again = bisect(document["cell"]["key"][:8], cwd=tmp_path)
    assert again.returncode == 0
    assert f"{len(document['history'])} cached" in again.stderr
    assert (
        "3.3.1 fails FC302 (chooseStMatrixLayoutLeadingOffset) → 3.4.0 compiles; torch 2.7.1 | 2.8.*"
        in " ".join(again.stdout.split())
    )
    assert bisect(document["cell"]["key"], "--find", "fail", cwd=tmp_path).returncode == 3
