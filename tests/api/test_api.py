"""The public API: exports, results, errors and output."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import flacheck
from flacheck import toolchains
from flacheck.cli import app
from tests.fake.family import FakeFamily
from tests.schemas import validate_json

ABORT = "abort f.cpp:1: int f(int) const: Assertion `size == want' failed."
SCHEMAS = Path(flacheck.__file__).parent / "tables" / "schemas"
COMMANDS = (
    "autotune",
    "bench",
    "bisect",
    "diff",
    "dtypes",
    "gate",
    "measure",
    "report",
    "repro",
    "scan",
)
# Options of the command line that only concern its output, or that combine two functions.
OUTPUT = {
    "format",
    "output",
    "dry_run",
    "strict",
    "suggest",
    "emit",
    "reports",
    "list_",
    "merge",
}
# Parameters that the command line decides by itself.
OWN = {"on_event", "chosen"}

SHAPE = {"B": 1, "T": 128, "H": 1, "K": 64, "V": 64}


def parameters(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(flacheck, name)).parameters)


@pytest.mark.parametrize("name", flacheck.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Every public name exists and has a docstring."""
    value = getattr(flacheck, name)
    if callable(value):
        assert inspect.getdoc(value)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """An unknown name is an AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'scann'"):
        getattr(flacheck, "scann")  # noqa: B009


@pytest.mark.parametrize("name", COMMANDS)
def test_functions_take_the_names_of_the_command_line(name: str) -> None:
    """Each option is an argument with the same default, and the reverse."""
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = {each.name: each for each in command.params}
    arguments = parameters(name)
    for name_of_all in ("help", "offline", "refresh", "quiet", "verbose"):
        if name_of_all not in arguments:
            options.pop(name_of_all, None)
    output = OUTPUT - set(arguments)
    if name == "repro":
        # The folder is an argument; `--format` alone concerns the output.
        output = {"format"}
    assert set(options) - output == set(arguments) - OWN
    for option in set(options) - output:
        argument_default = arguments[option].default
        bisection = options[option].default
        if argument_default is inspect.Parameter.empty or bisection in (None, [], ()):
            continue
        if name == "dtypes" and option in ("autocast", "params"):
            # A script has its own mode, so the function's default is None.
            continue
        assert str(bisection) == str(argument_default), option


def test_importing_flacheck_imports_no_compiler() -> None:
    """The import loads neither Triton nor torch."""
    code = "import sys, flacheck; print(sorted({'torch', 'triton', 'typer', 'rich'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["flacheck", "flacheck.api.explain", "flacheck.api.lists"])
def test_the_examples_of_docstrings_run(module: str) -> None:
    """The docstrings' examples print what they show."""
    __import__(module)
    ran = doctest.testmod(sys.modules[module])
    assert ran.failed == 0
    assert ran.attempted > 0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a matrix of one kernel that two fake releases compile and one does not."""
    table = {"*": {"==2.0": ABORT, "else": "compile"}}
    axes: dict[str, Any] = {"kernel": "retention.chunk_fwd_o", "dtype": "bf16", "shape": SHAPE}
    axes["configs"] = "first"
    matrix = {"version": 1, "axes": axes}
    (tmp_path / "one.yaml").write_text(json.dumps(matrix))
    monkeypatch.setitem(toolchains.FAMILIES, "fake", FakeFamily(table))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(*specs: str, **more: Any) -> flacheck.Run:
    return flacheck.scan("one.yaml", target="sm90", toolchain=specs, jobs=1, **more)


def test_a_scan_returns_a_run_that_can_be_read_again(project: Path) -> None:
    """The run has records, failures and an exit code, and is stored."""
    run = scan("fake==1.0", "fake==2.0", store=project / "store")
    verdicts = {record.toolchain: record.verdict.value for record in run.records}
    assert verdicts == {"fake==1.0": "compiles", "fake==2.0": "fails"}
    assert len({record.key for record in run.records}) == 2
    assert run.exit_code == flacheck.Exit.FINDINGS
    assert [failure.count for failure in run.failures] == [1]
    assert flacheck.report(store=project / "store").id == run.id
    assert [each.id for each in flacheck.list_runs(store=project / "store")] == [run.id]


def test_results_are_frozen(project: Path) -> None:
    """A result cannot be changed."""
    run = scan("fake==1.0", store=project / "store")
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.strict = True  # type: ignore[misc]


def test_json_is_the_documented_one(project: Path) -> None:
    """The JSON equals that of `report --format json`."""
    store = project / "store"
    document = scan("fake==1.0", "fake==2.0", store=store).to_json()
    outcome = CliRunner().invoke(app, ["report", "--store", str(store), "--format", "json"])
    assert json.loads(outcome.stdout) == json.loads(json.dumps(document))
    validate_json("run", json.loads(json.dumps(document)))


def test_events_tell_of_each_cell(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each record is an event, and nothing is printed."""
    events: list[flacheck.Event] = []
    run = scan("fake==1.0", "fake==2.0", store=project / "store", on_event=events.append)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["RunStarted", "RecordSettled", "RecordSettled", "RunFinished"]
    assert events[0] == flacheck.RunStarted(run.id, 2)
    assert events[-1] == flacheck.RunFinished(run.id, complete=True, failures=1)
    assert capsys.readouterr() == ("", "")


def test_an_error_has_the_exit_code_of_the_command(project: Path) -> None:
    """An error is raised with the command's exit code."""
    cases: list[tuple[Callable[[], object], flacheck.Exit]] = [
        (lambda: flacheck.scan("nothing-of-that-name"), flacheck.Exit.USAGE),
        (lambda: flacheck.scan("quick", kernel="no-such-*"), flacheck.Exit.USAGE),
        (lambda: flacheck.report(store=project / "missing"), flacheck.Exit.USAGE),
        (lambda: flacheck.explain("FC999"), flacheck.Exit.USAGE),
        (lambda: flacheck.bisect("0" * 12, store=project / "missing"), flacheck.Exit.USAGE),
        (lambda: flacheck.scan("quick", package="x==1"), flacheck.Exit.USAGE),
        (lambda: flacheck.scan("quick", timeout="soon"), flacheck.Exit.USAGE),
    ]
    for call, code in cases:
        with pytest.raises(flacheck.FlacheckError) as caught:
            call()
        assert caught.value.exit_code == code


def test_a_callback_that_raises_ends_the_run_and_keeps_its_records(project: Path) -> None:
    """An error in a callback ends the run and keeps its records."""

    class Enough(Exception):
        pass

    def stop(event: flacheck.Event) -> None:
        if isinstance(event, flacheck.RecordSettled):
            raise Enough

    with pytest.raises(Enough):
        scan("fake==1.0", "fake==2.0", store=project / "store", on_event=stop)
    (run,) = flacheck.list_runs(store=project / "store")
    assert run.finished is None
    assert len(list(flacheck.report(store=project / "store").records)) >= 1


def test_a_bisection_finds_the_release_that_broke_a_cell(project: Path) -> None:
    """A bisection takes the key of a stored record."""
    run = scan("fake==1.0", "fake==2.0", store=project / "store")
    (failing,) = [record for record in run.records if record.verdict.value == "fails"]
    bisection = flacheck.bisect(
        failing.key, toolchain=["fake==1.0", "fake==2.0"], store=project / "store"
    )
    assert [(change.before.toolchain, change.after.toolchain) for change in bisection.changes] == [
        ("fake==1.0", "fake==2.0")
    ]


def test_explaining_a_code_and_a_log() -> None:
    """A code and a log are both explained."""
    assert flacheck.explain("fc501").findings[0].code == "FC501"
    log = "RuntimeError: Triton Error: out of resource: shared memory, Required: 245760, Hardware limit: 232448."
    explanation = flacheck.explain(log)
    assert explanation.findings[0].code == "FC501"
    assert explanation.exit_code == flacheck.Exit.OK
    assert flacheck.explain("all is well").exit_code == flacheck.Exit.FINDINGS
