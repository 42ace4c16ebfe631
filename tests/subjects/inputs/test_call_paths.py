"""Selecting launches by their call paths: `--op`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.autotune import gathering
from flacheck.errors import EmptySelection, MatrixError
from flacheck.model import Purpose
from flacheck.pipeline.resolved_cell import resolve_cell
from flacheck.store import Store
from flacheck.subjects.inputs import launches
from flacheck.subjects.inputs.call_paths import came_through, matches
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.planned import plan
from tests.subjects.inputs.launches.test_launches import HEADER, launch, write

RETENTION = ("fla.ops.retention.chunk.chunk_retention", "fla.ops.simple_gla.chunk.chunk_simple_gla")
GLA = ("fla.layers.gla.GatedLinearAttention.forward", "fla.ops.gla.chunk.chunk_gla")
NAME = "fla.ops.gla.chunk.ChunkGLAFunction.backward"


def path_line(digest: str, through: tuple[str, ...]) -> dict[str, Any]:
    return {"path": digest * 12, "through": through}


def launch_line(identity: str, dtype: str, *paths: str) -> dict[str, Any]:
    """A launch that differs from others in its first argument's dtype."""
    line: dict[str, Any] = json.loads(json.dumps(launch()))
    line["launch"]["args"]["x"]["dtype"] = dtype
    return {**line, "id": identity * 16, "paths": [digest * 12 for digest in paths]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A bf16 launch of retention, an fp16 launch of retention and of GLA, an fp32 launch of GLA."""
    identities = {"a": ("bf16", "d"), "b": ("fp16", "d"), "c": ("fp32", "e")}
    lines = [launch_line(identity, *fields) for identity, fields in identities.items()]
    more = {"of": "b" * 16, "count": 2, "paths": ["e" * 12]}
    paths = [path_line("d", RETENTION), path_line("e", GLA)]
    return write(tmp_path, HEADER, *paths, *lines, more)


@pytest.mark.parametrize(
    "glob",
    [
        "chunk_gla",
        "gla",
        "fla.ops.gla",
        "fla.ops.gla.chunk.ChunkGLAFunction",
        "*.backward",
        "ChunkGLA*",
        "f?a",
        NAME,
    ],
)
def test_a_glob_matches_a_function_its_class_and_its_modules(glob: str) -> None:
    """A glob matches the whole dotted name of each, or any component."""
    name = "fla.ops.gla.chunk.chunk_gla" if glob == "chunk_gla" else NAME
    assert matches((glob,), name)


@pytest.mark.parametrize("glob", ["gl", "ops.gla", "Gla", "chunk.ChunkGLAFunction", "backward.x"])
def test_a_glob_matches_no_part_of_a_name(glob: str) -> None:
    """It matches neither a part of a component nor several components without the first."""
    assert not matches((glob,), NAME)


def test_any_of_the_globs_on_any_of_the_paths_will_do() -> None:
    """A launch with several paths belongs to each."""
    assert came_through(("nothing", "gla"), [RETENTION, GLA])
    assert not came_through(("gla",), [RETENTION])


def test_the_keys_of_cells_do_not_depend_on_paths(file: Path, tmp_path: Path) -> None:
    """A file without paths has the same cells."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines_left = [
        {k: v for k, v in line.items() if k != "paths"} for line in lines if "path" not in line
    ]
    bare = tmp_path / "bare"
    bare.mkdir()
    everything = Selection(toolchains=("3.2.0",))
    with_paths = plan(Subject(str(file)), everything)
    without = plan(Subject(str(write(bare, *lines_left))), everything)
    assert [cell.key for cell in with_paths.cells] == [cell.key for cell in without.cells]


def test_an_operator_that_nothing_came_through_is_named_with_what_is_like_it(file: Path) -> None:
    """The selection is empty: exit code 4."""
    with pytest.raises(EmptySelection, match="--op 'retentoin'; did you mean retention"):
        plan(Subject(str(file)), Selection(ops=("retentoin",), toolchains=("3.2.0",)))


def test_a_file_that_was_recorded_without_paths_says_so(tmp_path: Path) -> None:
    """A selection by path in a file without paths is an error."""
    old = write(tmp_path, HEADER, launch())
    with pytest.raises(EmptySelection, match="this file has none"):
        plan(Subject(str(old)), Selection(ops=("gla",), toolchains=("3.2.0",)))


def test_declared_launches_have_no_call_path() -> None:
    """A selection by path of a matrix is empty."""
    with pytest.raises(EmptySelection, match="matrix quick: its launches are declared"):
        plan(Subject("quick"), Selection(ops=("retention",), toolchains=("3.2.0",)))


def test_stored_results_hold_no_call_paths(store: Store) -> None:
    """A cell that is looked up in the store cannot be selected by call paths."""
    with pytest.raises(EmptySelection, match="which stored results do not hold"):
        resolve_cell(None, Selection(ops=("gla",)), store, Purpose.REPRO)


def test_one_line_of_a_file_has_all_paths_of_its_launch(file: Path) -> None:
    """This includes paths that follow the line."""
    selection = Selection(ops=("chunk_gla",), toolchains=("3.2.0",))
    cells = plan(Subject(f"{file}:5"), selection).cells
    assert {cell.dtype for cell in cells} == {"fp16"}


def test_autotune_examines_what_came_through(tmp_path: Path) -> None:
    """`autotune` selects launches of a file by path as a scan does."""
    line = launch_line("a", "bf16", "d")
    line["launch"]["configs"] = [{"kwargs": {}, "num_warps": 4}]
    file = write(tmp_path, HEADER, path_line("d", RETENTION), line)
    selection = gathering.of_launches(file, Selection(ops=("retention",), toolchains=("3.2.0",)))
    assert {each.cell.kernel.name for each in selection.launches} == {"program:scale"}
    with pytest.raises(EmptySelection, match="no launch came through"):
        gathering.of_launches(file, Selection(ops=("gla",), toolchains=("3.2.0",)))


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["f" * 12], "path 'ffffffffffff' is in no line before"),
        ([["d"]], "is in no line before"),
        ("d" * 12, "paths is a list of digests"),
    ],
)
def test_a_path_that_is_nowhere_is_an_error_with_its_line(
    tmp_path: Path, paths: Any, message: str
) -> None:
    """This holds for launches and for counts."""
    for line in (launch(paths=paths), {"of": "a" * 16, "count": 1, "paths": paths}):
        with pytest.raises(MatrixError, match=rf"\.jsonl:2: .*{message}"):
            launches.read(write(tmp_path, HEADER, line))
