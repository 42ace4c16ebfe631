"""The run of bundles on a fake GPU, in a real worker process."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from flacheck.capabilities.measure.measuring import document_of
from flacheck.engine.card_runner import CardRunner, NoCard
from flacheck.errors import IncompleteError
from flacheck.evidence.measured.results import LaunchResult, MeasureDocument, State
from flacheck.pipeline.events import drain
from flacheck.pipeline.measurement.running import Findings, MeasurementJournal, run_bundle
from tests.pipeline.measurement.bundles import BINDING, bundle, launch


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[CardRunner]:
    folder = tmp_path / "requests"
    folder.mkdir()
    with CardRunner(60.0, folder, BINDING) as fake:
        yield fake


def _measure(runner: CardRunner, folder: Path, *launches: object) -> MeasureDocument:
    bundled = bundle(folder, *launches)  # type: ignore[arg-type]
    journal = MeasurementJournal.of(folder / "store", bundled, runner.card, 0)
    findings = drain(run_bundle(bundled, runner, 0, journal), None)
    return document_of(bundled.manifest, findings, runner.card)


def _states(result: LaunchResult) -> list[State]:
    return [each.state for each in result.results]


@pytest.mark.parametrize(
    ("behaviour", "state"),
    [
        ("double", State.SAME),
        ("round", State.ROUNDING),
        ("wrong", State.DIFFERS),
        ("waver", State.UNSTABLE),
        ("write beyond", State.FAULTS),
        ("fault", State.FAULTS),
        ("do nothing", State.NOT_COMPARABLE),
    ],
)
def test_each_result_has_its_state(
    runner: CardRunner, tmp_path: Path, behaviour: str, state: State
) -> None:
    """One binary beside two good ones is the same, off by rounding, different, or at fault."""
    document = _measure(runner, tmp_path, launch(tmp_path, "double", behaviour, "double"))
    (result,) = document.launches
    assert _states(result) == [State.SAME, state, State.SAME]
    is_wrong = state in (State.DIFFERS, State.UNSTABLE, State.FAULTS)
    assert [each.is_wrong for each in result.results] == [False, is_wrong, False]


def test_a_fault_ends_its_own_binary_alone(runner: CardRunner, tmp_path: Path) -> None:
    """The other binaries of the launch and the launches after it are measured."""
    first = launch(tmp_path, "fault", "double", "fault", "double")
    second = launch(tmp_path, "double", "double", kernel="package.module:other")
    document = _measure(runner, tmp_path, first, second)
    states = [_states(result) for result in document.launches]
    fault, same = State.FAULTS, State.SAME
    assert states == [[fault, same, fault, same], [same, same]]
    assert "ILLEGAL_ADDRESS" in (document.launches[0].results[0].reason or "")


def test_a_hang_ends_its_own_binary_alone(tmp_path: Path) -> None:
    """A binary that does not end is stopped at the time limit."""
    folder = tmp_path / "requests"
    folder.mkdir()
    with CardRunner(3.0, folder, BINDING) as impatient:
        document = _measure(impatient, tmp_path, launch(tmp_path, "double", "hang", "double"))
    assert _states(document.launches[0]) == [State.SAME, State.FAULTS, State.SAME]


def test_a_made_up_launch_that_faults_is_not_comparable(runner: CardRunner, tmp_path: Path) -> None:
    """Invented arguments explain a fault and a difference: neither is a wrong result."""
    reason = "flacheck made up its arguments"
    made_up = launch(tmp_path, "double", "fault", "wrong", "double", made_up=reason)
    document = _measure(runner, tmp_path, made_up)
    (result,) = document.launches
    states = [State.SAME, State.NOT_COMPARABLE, State.DIFFERS, State.SAME]
    assert _states(result) == states
    assert not document.wrong
    assert reason in (result.results[1].reason or "")


def test_results_that_overflow_are_not_compared(runner: CardRunner, tmp_path: Path) -> None:
    """Inputs are drawn from further distributions, and their name is in the result."""
    document = _measure(runner, tmp_path, launch(tmp_path, "overflow", "overflow", "wrong"))
    (result,) = document.launches
    assert _states(result)[2] is State.NOT_COMPARABLE
    assert result.distribution == "normal"


def test_a_result_that_overflows_alone_differs(runner: CardRunner, tmp_path: Path) -> None:
    """An infinity or NaN beside finite results of the same inputs is a wrong result."""
    document = _measure(runner, tmp_path, launch(tmp_path, "double", "overflow", "double"))
    (result,) = document.launches
    assert _states(result) == [State.SAME, State.DIFFERS, State.SAME]
    assert [each.is_wrong for each in result.results] == [False, True, False]


def test_the_majority_decides_which_release_differs(runner: CardRunner, tmp_path: Path) -> None:
    """If the first release is alone with its result, it is the one that differs."""
    document = _measure(runner, tmp_path, launch(tmp_path, "wrong", "double", "double"))
    (result,) = document.launches
    assert _states(result) == [State.DIFFERS, State.SAME, State.SAME]


@pytest.mark.parametrize(
    ("dtype", "behaviours", "state"),
    [
        ("i32", ("count", "count from one"), State.DIFFERS),
        ("i64", ("large", "large and one"), State.DIFFERS),
        ("i1", ("quantise", "quantise by one more"), State.DIFFERS),
        ("i8", ("quantise", "quantise by one more"), State.ROUNDING),
        ("i8", ("quantise", "quantise by two more"), State.DIFFERS),
    ],
)
def test_integers_are_not_rounded(
    runner: CardRunner, tmp_path: Path, dtype: str, behaviours: tuple[str, str], state: State
) -> None:
    """Counts and booleans must be equal; bytes, which are quantised floats, may differ by one."""
    good, bad = behaviours
    document = _measure(runner, tmp_path, launch(tmp_path, good, bad, good, bad, output=dtype))
    (result,) = document.launches
    assert _states(result) == [State.SAME, state, State.SAME, state]
    reasons = {each.reason for each in result.results if each.state is State.DIFFERS}
    assert len(reasons) <= 1
    assert (result.disagreement is not None) == bool(reasons)


def test_a_slower_release_is_named(runner: CardRunner, tmp_path: Path) -> None:
    """Times are those of the driver's clock; the operator's time is the sum of its kernels'."""
    slow = launch(tmp_path, ("double", 20.0), ("double", 30.0), ("double", 21.0))
    quick = launch(tmp_path, ("double", 80.0), ("double", 80.0), kernel="package.module:other")
    document = _measure(runner, tmp_path, slow, quick)
    kernels = [(each.toolchain, each.ratio, each.change) for each in document.kernels]
    assert kernels[:2] == [
        ("triton==3.6.0", 1.5, "slower"),
        ("triton==3.7.1", 1.05, "equal"),
    ]
    ratios = [(each.toolchain, each.ratio, each.change) for each in document.operators]
    assert ratios[0] == ("triton==3.6.0", 1.1, "equal")
    summary = document.summaries[1]
    assert (summary.kernels, summary.slower, summary.faster) == (2, 1, 0)
    assert (summary.geometric_mean, summary.total) == (1.2247, 1.1)


def test_a_binary_that_needs_too_much_memory_is_not_comparable(
    runner: CardRunner, tmp_path: Path
) -> None:
    """The reason has the number of bytes and the GPU's limit."""
    document = _measure(runner, tmp_path, launch(tmp_path, "double", shared=300_000))
    (result,) = document.launches[0].results
    assert result.state is State.NOT_COMPARABLE
    reason = "shared memory: a block needs 300,000 bytes, and this GPU has 232,448"
    assert result.reason == reason


def test_a_killed_run_goes_on_where_it_was(runner: CardRunner, tmp_path: Path) -> None:
    """Launches in the journal are not run again; an incomplete last line counts as none."""
    bundled = bundle(tmp_path, launch(tmp_path, "double"), launch(tmp_path, "wrong", kernel="m:b"))
    journal = MeasurementJournal.of(tmp_path / "store", bundled, runner.card, 0)
    run = run_bundle(bundled, runner, 0, journal)
    messages = [next(run), next(run)]
    run.close()
    with journal.file.open("a") as file:
        file.write('{"launch": 1, "facts')
    messages = []
    findings = drain(run_bundle(bundled, runner, 0, journal), messages.append)
    assert len(findings) == 2
    assert [str(message)[:40] for message in messages].count("measuring") == 0
    assert "1 of 2 launches were measured before" in str(messages[0])


def test_a_missing_binding_is_no_card(tmp_path: Path) -> None:
    """The message names the extra to install."""
    with (
        pytest.raises(NoCard, match="No module named 'absent'"),
        CardRunner(60.0, tmp_path, ("absent", str(tmp_path))),
    ):
        pass


def test_two_runners_do_not_share_a_gpu(runner: CardRunner, tmp_path: Path) -> None:
    """The second one ends at once; the first one goes on."""
    second = CardRunner(60.0, tmp_path, BINDING)
    with pytest.raises(IncompleteError, match="another measurement uses the GPU"):
        second.__enter__()
    document = _measure(runner, tmp_path, launch(tmp_path, "double", "double"))
    assert _states(document.launches[0]) == [State.SAME, State.SAME]


def test_a_gpu_is_free_after_its_runner(tmp_path: Path) -> None:
    """Another visible GPU is another lock."""
    for _ in range(2):
        with CardRunner(60.0, tmp_path, BINDING) as first:
            assert first.card["name"] == "Fake GPU"


def test_a_full_disk_keeps_the_launches_before_it(
    runner: CardRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on where it was once there is space."""
    first = launch(tmp_path, "double", "double")
    second = launch(tmp_path, "double", "double", kernel="package.module:other")
    bundled = bundle(tmp_path, first, second)
    journal = MeasurementJournal.of(tmp_path / "store", bundled, runner.card, 0)
    add = MeasurementJournal.add
    count = []

    def fill(self: MeasurementJournal, number: int, findings: Findings) -> None:
        count.append(number)
        if len(count) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        add(self, number, findings)

    monkeypatch.setattr(MeasurementJournal, "add", fill)
    with pytest.raises(OSError, match="No space left"):
        drain(run_bundle(bundled, runner, 0, journal), None)
    assert list(journal.read(2)) == [0]
    assert len(drain(run_bundle(bundled, runner, 0, journal), None)) == 2
    assert sorted(journal.read(2)) == [0, 1]
