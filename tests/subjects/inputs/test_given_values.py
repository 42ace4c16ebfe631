"""`NAME=VALUE` on a command line: macros of units and options of compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.errors import UsageError
from flacheck.model import Cell
from flacheck.pipeline import planning
from flacheck.pipeline.job import Job
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.key_value_options import combinations
from flacheck.subjects.inputs.subject import Subject
from tests.made_toolkit import project, toolkit


def test_each_name_is_an_axis() -> None:
    """A repeated name has two values; a name alone is true; a value may hold any text."""
    assert combinations("--define", ["D=64", "D=128", "FAST", "T=Shape<_64,_8>"]) == (
        {"D": 64, "FAST": True, "T": "Shape<_64,_8>"},
        {"D": 128, "FAST": True, "T": "Shape<_64,_8>"},
    )
    assert combinations("--define", []) == ({},)


@pytest.mark.parametrize("text", ["1D=3", "=3", "", "a b=1"])
def test_what_is_no_name_is_refused(text: str) -> None:
    """The message shows a valid example."""
    with pytest.raises(UsageError, match="expected NAME=VALUE, for example --define HEAD_DIM=64"):
        combinations("--define", [text])


def cells(tmp_path: Path, **chosen: tuple[str, ...]) -> list[Cell]:
    """Return the cells of a project of one unit, built in bf16 and fp8, under a toolkit of its
    own."""
    root = project(tmp_path, unit="")
    selection = Selection(targets=("sm90a",), toolchains=(str(toolkit(tmp_path)),), **chosen)  # type: ignore[arg-type]
    return list(planning.plan_job(Job(Subject(package=str(root)), selection)).cells)


def test_macros_are_added_to_a_builds_own_and_replace_them(tmp_path: Path) -> None:
    """A cell with added macros is marked, because the build does not compile it."""
    cells_made = cells(tmp_path, defines=("HEAD_DIM=64", "HEAD_DIM=128"))
    args = [cell.launch.args for cell in cells_made if cell.launch]
    assert [(a["ELEMENT"]["constexpr"], a["HEAD_DIM"]["constexpr"]) for a in args] == [
        ("bf16", 64),
        ("bf16", 128),
        ("fp8", 64),
        ("fp8", 128),
    ]
    assert all(cell.is_widened for cell in cells_made)


def test_a_macro_of_the_build_given_again_is_replaced(tmp_path: Path) -> None:
    """Both units become the same cell, and only the one that changed would be marked."""
    (only,) = cells(tmp_path, defines=("ELEMENT=bf16",))
    assert only.launch is not None
    assert only.launch.args["ELEMENT"] == {"constexpr": "bf16"}


def test_options_replace_those_of_the_build(tmp_path: Path) -> None:
    """An option for the standard replaces the build's; an unknown option is an error."""
    cells_made = cells(tmp_path, options_given=("std=c++20", "std=c++17"))
    assert sorted({str(cell.options["std"]) for cell in cells_made}) == ["c++17", "c++20"]
    assert len(cells_made) == 4


def test_an_option_that_the_compiler_lacks_is_an_error(tmp_path: Path) -> None:
    """The message lists the options of the compiler."""
    with pytest.raises(UsageError, match="unknown option 'num_warp' of nvcc"):
        cells(tmp_path, options_given=("num_warp=4",))


def test_macros_are_for_units_alone() -> None:
    """Triton's constants have an axis of their own."""
    with pytest.raises(UsageError, match="axis `constants`"):
        planning.plan_job(
            Job(Subject("quick"), Selection(toolchains=("3.6.0",), defines=("D=64",)))
        )


def test_a_question_says_what_was_given() -> None:
    """The question has the values as typed, with their commas."""
    from flacheck.model import Question

    question = Question("cuda", selection=Selection(defines=("A=1,2", "B")).to_json())
    assert question.narrowing == "--define A=1,2 --define B"
