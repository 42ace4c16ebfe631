"""The card that a package is captured on, target by target."""

from __future__ import annotations

import json
import logging
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.engine.judge import judge
from flacheck.errors import EmptySelection
from flacheck.model import Cut, Imported, Verdict
from flacheck.pipeline import package_launches, planning
from flacheck.pipeline.job import Job
from flacheck.pipeline.package_launches import ResolvedPackage, resolve_package
from flacheck.source.packages.package import Package
from flacheck.subjects.captures.capture_archive import Captures
from flacheck.subjects.captures.capture_job import CaptureJob, CaptureResult
from flacheck.subjects.inputs import replay
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import Subject
from flacheck.toolchains.base import Choice
from tests.subjects.inputs.launches.test_launches import HEADER, launch, write

SHOP = Package("shop", "1.0", "/nowhere", "0", {})


class Resolver:
    """Knows one release."""

    warnings: tuple[str, ...] = ()

    def __init__(self) -> None:
        choice = Choice("triton", "3.6.0", "triton==3.6.0", "cache")
        self.choices = {choice.identity: choice}

    def __call__(self, spec: str) -> tuple[str, ...]:
        return tuple(self.choices)


def resolve(selection: Selection) -> ResolvedPackage:
    """The package of a scan with this selection."""
    return resolve_package(Job(Subject(package="shop==1.0"), selection))


@dataclass
class Report:
    """The cards that the package was called on, and the driver's report."""

    cards: list[str]
    said: dict[str, Any]


@pytest.fixture
def drives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Report:
    """Provide a package that launches one kernel on each card, with torch beside flacheck."""
    cards: list[str] = []
    line = launch(package=SHOP.identity, kernel="shop.ops:scale")
    file = write(tmp_path, HEADER, line)
    report: dict[str, Any] = {"modules": {}, "operators": {}}

    def prepare(jobs: list[CaptureJob], at_once: int) -> None:
        cards.extend(each.card["gpu"] for each in jobs)

    monkeypatch.setattr(package_launches, "Resolver", Resolver)
    monkeypatch.setattr(package_launches, "prepare_captures", prepare)
    monkeypatch.setattr(package_launches, "capture_package", lambda *_: CaptureResult(file, report))
    monkeypatch.setattr(package_launches, "provide_package", lambda spec: SHOP)
    monkeypatch.setattr(
        package_launches, "provide", lambda choice: SimpleNamespace(identity="triton")
    )
    monkeypatch.setattr(package_launches, "launchable", lambda path, prefix, globs: {})
    # Kernels are imported beside torch only; nothing is imported here, so any folder will do.
    monkeypatch.setattr(replay, "torch_folder", lambda: "/nowhere")
    monkeypatch.setattr(Package, "modules", ("shop",))
    monkeypatch.setattr(Package, "may_contain_kernels", True)
    return Report(cards, report)


def test_launches_for_an_amd_card_are_recorded_on_an_nvidia_card(
    drives: Report, caplog: pytest.LogCaptureFixture
) -> None:
    """A note precedes the capture, and the other targets are captured on their own cards."""
    selection = Selection(targets=("gfx942", "sm80"))
    cells = resolve(selection).question.asked
    assert [each.target for each in cells] == ["gfx942", "sm80"]
    with caplog.at_level(logging.WARNING):
        plan = resolve(selection).capture().expand()
    (note,) = caplog.messages
    assert note.startswith("gfx942: flacheck imitates NVIDIA cards only, so the launches of shop")
    assert "recorded on NVIDIA A100-SXM4-80GB and compiled for gfx942" in note
    assert drives.cards == ["NVIDIA A100-SXM4-80GB"] * 2
    how = {cell.target: type(cell.kernel.origin) for cell in plan.cells}
    # On AMD's card the package would be imported as another one than was recorded.
    assert how == {"gfx942": Cut, "sm80": Imported}


@pytest.mark.parametrize(
    ("module", "report", "is_failure"),
    [
        ("shop", "ModuleNotFoundError: No module named 'triton.tools.gone'", True),
        ("shop", "ImportError: cannot import name 'gone' from 'triton.language' (a.py)", True),
        # A module for other releases, what is not installed, and another name like Triton's.
        ("shop.gluon", "ModuleNotFoundError: No module named 'triton.experimental'", False),
        ("shop", "ModuleNotFoundError: No module named 'yaml'", False),
        ("shop", "ModuleNotFoundError: No module named 'tritonclient.grpc'", False),
    ],
)
def test_a_package_that_asks_triton_for_what_is_gone_fails_to_import(
    drives: Report, module: str, report: str, is_failure: bool
) -> None:
    """Its modules can be captured without the `__init__`, but users cannot import them."""
    drives.said["modules"][module] = report
    plan = resolve(Selection()).capture().expand()
    imports = [cell for cell in plan.cells if cell.stage == "import"]
    assert [cell.kernel.name for cell in imports] == ["shop:__init__"] * is_failure
    for cell in imports:
        assert judge(cell, plan.attempts[cell.key]).verdict is Verdict.FAILS


@pytest.mark.parametrize(
    ("report", "verdict"),
    [
        ("PermissionError: [Errno 13] Permission denied: '/root/.shop'", Verdict.UNKNOWN),
        ("OSError: [Errno 28] No space left on device", Verdict.UNKNOWN),
        ("ValueError: key contains names that are not kernel arguments", Verdict.FAILS),
    ],
)
def test_an_import_that_the_sandbox_ends_is_unknown(
    drives: Report, report: str, verdict: Verdict
) -> None:
    """The package may import where it has the rights."""
    drives.said["import_error"] = {"traceback": f"Traceback …\n{report}"}
    plan = resolve(Selection()).capture().expand()
    (cell,) = plan.cells
    assert judge(cell, plan.attempts[cell.key]).verdict is verdict


def test_a_release_without_a_wheel_is_not_captured(
    drives: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other releases are captured, and the cells of this one are imports."""
    absent = Choice("triton", "3.5.0", "triton==3.5.0", "cache", reason="no wheel for this Python")

    class Both(Resolver):
        """A compiler family with one more release."""

        def __init__(self) -> None:
            super().__init__()
            self.choices = {absent.identity: absent, **self.choices}

    monkeypatch.setattr(package_launches, "Resolver", Both)
    captures = resolve(Selection()).capture().captures
    assert [(each.choice.version, each.driven is None) for each in captures] == [
        ("3.5.0", True),
        ("3.6.0", False),
    ]
    assert drives.cards == ["NVIDIA H100 80GB HBM3"]
    plan = resolve(Selection()).capture().expand()
    assert {cell.stage for cell in plan.cells if cell.toolchain == absent.identity} == {"import"}


def test_an_amd_card_alone_is_captured_on_the_usual_card(drives: Report) -> None:
    """Without an NVIDIA target the usual card is imitated."""
    plan = resolve(Selection(targets=("mi300x",))).capture().expand()
    assert drives.cards == ["NVIDIA H100 80GB HBM3"]
    assert {cell.target for cell in plan.cells} == {"gfx942"}


def test_a_kernel_that_is_imported_has_its_cut_source_with_it(drives: Report) -> None:
    """A worker that cannot import the package compiles the cut source."""
    plan = resolve(Selection()).capture().expand()
    (origin,) = {cell.kernel.origin for cell in plan.cells}
    assert isinstance(origin, Imported)
    assert origin.cut == launch()["text"]
    assert json.dumps(plan.context())


def test_a_known_capture_fetches_no_compiler(
    drives: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells can be listed; a compiler is fetched once a cell has to be compiled."""

    def refuse(choice: Choice) -> None:
        raise AssertionError(f"{choice.identity} would be fetched")

    monkeypatch.setattr(package_launches, "provide", refuse)
    monkeypatch.setattr(package_launches, "is_captured", lambda job: True)
    plan = planning.plan_job(Job(Subject(package="shop==1.0"), Selection(targets=("sm90",))))
    assert {cell.toolchain for cell in plan.cells} == {"triton==3.6.0"}


def test_a_glob_without_a_match_is_answered_with_the_names_of_kernels(drives: Report) -> None:
    """The message names a similar kernel, else all of a small package's."""
    for glob, hint in {"scal": "did you mean scale?", "*attn*": "1 kernels: scale"}.items():
        with pytest.raises(EmptySelection, match=re.escape(hint)):
            resolve(Selection(kernels=(glob,))).capture().expand()


def test_a_selected_kernel_that_no_operator_reaches_is_missed(
    drives: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package launches it in a module that cannot be imported."""
    launchers = {"shop.bad:norm": ("shop.bad:run",)}
    monkeypatch.setattr(package_launches, "launchable", lambda path, prefix, globs: launchers)
    drives.said.update(sought=[], modules={"shop.bad": "ImportError: no gone"})
    plan = resolve(Selection(kernels=("norm",))).capture().expand()
    (missed,) = plan.coverage[0]["missed"]
    assert missed == {
        "kernel": "shop.bad:norm",
        "reason": "shop.bad cannot be imported: ImportError: no gone",
    }


def test_a_later_shard_reads_its_launches_from_the_file(
    drives: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The launches are unpacked until the cells are known."""
    file = tmp_path / "captures.zip"
    line = launch(package=SHOP.identity, kernel="shop.ops:scale")
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(write(tmp_path, HEADER, line), "shop/launches.jsonl")

    def read(job: CaptureJob, captures: Captures) -> Any:
        return CaptureResult(captures.folder / "shop" / "launches.jsonl", drives.said)

    monkeypatch.setattr(package_launches, "capture_package", read)
    subject = Subject(package="shop==1.0", captures_file=file)
    plan = planning.plan_job(Job(subject, Selection(targets=("sm90",))))
    assert {cell.kernel.name for cell in plan.cells} == {"shop.ops:scale"}
