"""Triton's interpreter as the judge of different results, in a real sandboxed worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flacheck.engine.card_runner import CardRunner
from flacheck.evidence.measured.results import Disagreement, LaunchResult, Sample, State
from flacheck.model import Purpose
from flacheck.pipeline.job import Job
from flacheck.pipeline.measurement.interpreting import judge_by_interpreter, stray_shares
from flacheck.pipeline.measurement.judging import judge_launch
from flacheck.pipeline.measurement.launches import MeasuredLaunches, measured_launches
from flacheck.pipeline.measurement.running import run_launch
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from tests.capabilities.measure.test_measure import TEXT, launches_file, recorded
from tests.captured import needs_torch
from tests.pipeline.measurement.bundles import BINDING, launch

NUMBERS = st.lists(st.floats(0.5, 2.0, width=32), min_size=1, max_size=20)


def measured(folder: Path, *behaviours: str) -> LaunchResult:
    """The results of a fake GPU's kernels that stand for a kernel which doubles."""
    bundled = launch(folder, *behaviours)
    requests = folder / "requests"
    requests.mkdir()
    with CardRunner(60.0, requests, BINDING) as runner:
        findings = run_launch(bundled, folder, runner, 7)
    return judge_launch(bundled, findings.facts, findings.deaths, 7)


def recording(folder: Path, text: str) -> MeasuredLaunches:
    """The recorded launch of a kernel under the installed Triton."""
    file = launches_file(folder, recorded([16], text=text))
    selection = Selection(toolchains=("installed",))
    return measured_launches(
        Job(Subject(str(file), configs="usual"), selection, purpose=Purpose.MEASURE)
    )


@needs_torch
def test_the_interpreter_overrules_a_wrong_majority(tmp_path: Path) -> None:
    """Two releases that agree on a wrong result are wrong; the third one is right."""
    result = measured(tmp_path, "wrong", "double", "wrong")
    assert [each.is_wrong for each in result.results] == [False, True, False]
    own = recording(tmp_path, TEXT)
    judged = judge_by_interpreter(result, own.launches[0], own.plan, 20.0)
    assert (judged.judge or "").startswith("Triton's interpreter, 16 of 16 programs")
    assert [each.is_wrong for each in judged.results] == [True, False, True]
    assert [each.state for each in judged.results][1] is State.ROUNDING


@needs_torch
def test_an_interpreter_that_agrees_with_none_decides_nothing(tmp_path: Path) -> None:
    """The majority stays right if the interpreter computes a third result."""
    result = measured(tmp_path, "double", "wrong", "double")
    own = recording(tmp_path, TEXT.replace("* 2", "* 5"))
    judged = judge_by_interpreter(result, own.launches[0], own.plan, 20.0)
    assert (judged.judge or "").startswith("the majority: Triton's interpreter")
    assert [each.is_wrong for each in judged.results] == [False, True, False]


@needs_torch
def test_a_kernel_that_the_interpreter_cannot_run_is_left_to_the_majority(tmp_path: Path) -> None:
    """The reason is the interpreter's error."""
    result = measured(tmp_path, "double", "wrong", "double")
    own = recording(tmp_path, TEXT.replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK + 1)"))
    judged = judge_by_interpreter(result, own.launches[0], own.plan, 20.0)
    assert "power of 2" in (judged.judge or "")


def test_results_that_agree_need_no_judge(tmp_path: Path) -> None:
    """Nothing is interpreted without a disagreement."""
    result = measured(tmp_path, "double", "round", "double")
    assert result.disagreement is None


def _disagreement(*groups: Sequence[float]) -> Disagreement:
    values = tuple(tuple(value.hex() for value in group) for group in groups)
    places = tuple(range(len(groups[0])))
    return Disagreement(0, "normal", 1e-3, {"0": Sample(places, values)})


@given(NUMBERS)
def test_a_result_strays_nowhere_from_itself(numbers: list[float]) -> None:
    """Another one that is off by half strays everywhere."""
    other = [value * 1.5 for value in numbers]
    values = {"0": [value.hex() for value in numbers]}
    assert stray_shares(_disagreement(numbers, other), values) == [0.0, 1.0]


@given(NUMBERS)
def test_elements_that_no_program_wrote_do_not_count(numbers: list[float]) -> None:
    """Without any other element there is no share."""
    assert stray_shares(_disagreement(numbers), {"0": [None] * len(numbers)}) == [None]
    values = {"0": [*[None] * (len(numbers) - 1), numbers[-1].hex()]}
    assert stray_shares(_disagreement(numbers), values) == [0.0]


def test_an_infinity_in_place_of_a_number_strays() -> None:
    """Equal infinities do not."""
    sample = Sample((0, 1), (("inf", "0x1p+0"), ("inf", "inf")))
    disagreement = Disagreement(0, "normal", 1e-3, {"0": sample})
    assert stray_shares(disagreement, {"0": ["inf", "0x1p+0"]}) == [0.0, 0.5]
