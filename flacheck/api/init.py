"""`flacheck.init`: a workflow, settings, a hook and a baseline for the project that is here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import split
from flacheck.api.baselines import update_baseline
from flacheck.api.gate import gate
from flacheck.api.options.commands import InitOptions
from flacheck.api.options.declaration import takes
from flacheck.api.scan import scan
from flacheck.capabilities.gate.baseline import accepted_releases
from flacheck.capabilities.gate.pins import is_version
from flacheck.capabilities.gate.result import Gate
from flacheck.capabilities.init.project_files import (
    BASELINE,
    Choices,
    ProjectFile,
    project_files,
)
from flacheck.errors import EmptySelection
from flacheck.pipeline.events import OnEvent
from flacheck.reports.output import write
from flacheck.subjects.inputs import nearby
from flacheck.tables import targets
from flacheck.toolchains import triton_releases

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Initialized:
    """The files for a project's CI, and the gate that its CI will run.

    `scan` is the command that writes the baseline, None without one to write. `gate` is None if
    nothing was written. `compiled` of the `requested` cells were compiled for the baseline.
    """

    files: tuple[ProjectFile, ...]
    choices: Choices
    scan: str | None
    gate: Gate | None = None
    compiled: int = 0
    requested: int = 0

    def next_steps(self) -> Iterator[str]:
        """Yield how the baseline is made and completed, and what to do with the files."""
        if self.scan and self.compiled == self.requested:
            yield f"the baseline is that of: {self.scan}"
        elif self.scan:
            yield (
                f"the baseline holds {self.compiled} of {self.requested} cells, and until it is "
                "complete the gate does not know: the workflow's first run compiles the others, "
                f"and its artifact is the complete baseline; to go on here: {self.scan}"
            )
        if self.gate is not None:
            yield "commit these files; the workflow runs with the next pull request"


@takes(InitOptions)
def init(*, on_event: OnEvent | None = None, **options: Unpack[InitOptions]) -> Initialized:
    """Write a workflow, settings, a pre-commit hook and a baseline for this folder's project.

    The newest Triton release that its pins allow is compiled, for the time of the budget. Existing
    files stay: settings and the hook are added to them.

    Args:
        **options: The options of `flacheck init`.
        on_event: Receives each event while cells compile.

    Raises:
        UsageError: If an argument or a file of the project is wrong.
        EmptySelection: If the folder has neither kernels nor pins.
        IncompleteError: If the machine or the network cannot answer.
    """
    folder = Path.cwd()
    choices = _choices(folder, split(options["target"]), options["triton"])
    files = tuple(project_files(choices, folder, options["force"]))
    new_baseline = choices.package and (options["force"] or not BASELINE.exists())
    command = choices.scan().replace("--baseline", "--write-baseline") if new_baseline else None
    if options["dry_run"]:
        return Initialized(files, choices, command)
    for file in files:
        if not file.obstacle:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            write([file.text], file.path)
    counts = _write_baseline(choices, options, on_event) if new_baseline else (0, 0)
    return Initialized(files, choices, command, _judge(choices, options, BASELINE), *counts)


def _write_baseline(
    choices: Choices, options: InitOptions, on_event: OnEvent | None
) -> tuple[int, int]:
    """Compile the project's kernels, and accept the failures that they have now.

    Return the number of compiled cells and that of all.
    """
    run = scan(
        package=choices.package,
        target=choices.targets,
        triton=choices.triton,
        configs="usual",
        budget=options["budget"],
        stop=True,
        jobs=options["jobs"],
        store=options["store"],
        on_event=on_event,
    )
    # The store is not committed.
    write(["*\n"], Path(options["store"]) / ".gitignore")
    accepted = accepted_releases(_judge(choices, options, None))
    # Whatever interrupts this, the old baseline or the new one is there.
    new = BASELINE.with_suffix(".new")
    new.unlink(missing_ok=True)
    update_baseline(new, run.standings, accepted)
    new.replace(BASELINE)
    compiled = sum(each.answered_count for each in run.standings)
    return compiled, sum(each.requested_count or 0 for each in run.standings)


def _judge(choices: Choices, options: InitOptions, baseline: Path | None) -> Gate:
    """Judge the pins as the project's CI does."""
    return gate(
        package=choices.package,
        target=choices.targets,
        triton=choices.pins or (),
        baseline=baseline if choices.package else None,
        store=options["store"],
    )


def _choices(folder: Path, names: tuple[str, ...], triton: str | None) -> Choices:
    """Return the project's subject, the GPUs and the newest Triton release that its pins allow."""
    package = "." if any(nearby.project(folder)) else None
    card = nearby.read_card()
    chosen = names or split((card and card.target) or nearby.USUAL_CARDS)
    target = tuple(targets.find(name).name for name in chosen)
    newest, is_pinned = str(triton_releases.known_releases()[-1]), False
    with suppress(EmptySelection):
        judged = gate(package=package, target=target)
        allowed = [each.triton for each in judged.versions if is_version(each.triton)]
        newest = allowed[-1] if allowed else newest
        if len(allowed) < len(judged.versions):
            # The pins allow releases to come.
            newest = f">={newest}"
        is_pinned = any(pin.line is not None for pin in judged.pins)
    if package is None and not is_pinned:
        raise EmptySelection(
            "this folder has no Triton kernels, and no file that pins torch or triton: run "
            "`flacheck init` in a project"
        )
    pins = "" if is_pinned else f">={newest.removeprefix('>=')}"
    return Choices(package, target, triton or newest, pins)
