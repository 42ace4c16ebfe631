"""`flacheck.repro`: a failing cell as a minimal standalone script, verified on every release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import (
    cell_of,
    run_options,
    selection_of,
    texts,
)
from flacheck.api.options.commands import ReproOptions
from flacheck.api.options.declaration import takes
from flacheck.capabilities.repro import preprocessing
from flacheck.capabilities.repro.budget import Budget
from flacheck.capabilities.repro.compilers import Compilers, provide_releases
from flacheck.capabilities.repro.on_card import CardCompilers
from flacheck.capabilities.repro.output import files
from flacheck.capabilities.repro.output.result import Improvement, Reproduced
from flacheck.capabilities.repro.output.script import SHOWS
from flacheck.capabilities.repro.reproduction import Reproduction, begin, check_stage
from flacheck.engine.card_runner import CardRunner, NoCard
from flacheck.engine.provider import torch_folder
from flacheck.errors import Exit, IncompleteError, Interrupted, UsageError
from flacheck.model import Cell, Cut, Json, Purpose
from flacheck.pipeline import resolved_cell as cells
from flacheck.pipeline.events import OnEvent, Progress, ignore
from flacheck.pipeline.job import RunOptions
from flacheck.pipeline.measurement.running import LAUNCH_SECONDS
from flacheck.pipeline.measurement.wrong_results import WRONG, WrongLaunch, stored_launch
from flacheck.pipeline.resolved_cell import ResolvedCell
from flacheck.store import Store
from flacheck.tables.settings import durations
from flacheck.toolchains.base import Toolchain
from flacheck.toolchains.scratch import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Repro:
    """The files of a reproduction.

    Attributes:
        folder: Where the files are.
        files: Their names.
        result: The verified reduction; None for a CUDA unit, which is preprocessed only.
        interrupted: True if an interrupt ended the search.
    """

    folder: Path
    files: tuple[str, ...]
    result: Reproduced | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> Exit:
        """The exit code that the command line returns."""
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.result is None:
            return Exit.OK
        if not self.result.is_reproduced:
            return Exit.FINDINGS
        if self.result.lost_neighbours:
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """Return the document flacheck.repro/1; of a CUDA unit the files alone."""
        if self.result is None:
            return {"files": list(self.files)}
        return self.result.to_json(list(self.files))


@takes(ReproOptions)
def repro(
    cell: str | None = None, *, on_event: OnEvent | None = None, **options: Unpack[ReproOptions]
) -> Repro:
    """Reduce a cell's failure to a script that imports only Triton, and write it with an issue.

    An interrupt ends the search, and the best script so far is verified; a second one skips that.

    Args:
        cell: A key or its first 8 characters, `FILE.jsonl:LINE`, or a matrix; None searches the
            store for the one failing signature that the selection leaves.
        **options: The options of `flacheck repro`.
        on_event: Receives each improvement.

    Raises:
        UsageError: If no cell or several match, or the folder cannot be written.
        NotReproduced: If the failure does not show.
        Interrupted: If a second interrupt comes before the script is verified.
    """
    handle = on_event or ignore
    allowance = _budget(str(options["budget"]))
    selection, run = selection_of(options), run_options(options)
    about = cell_of(cell, options, "repro")
    try:
        with Store.open(options["store"], create=not cells.needs_store(about)) as open_store:
            chosen_cell = cells.resolve_cell(
                about, selection, open_store, Purpose.REPRO, options["trust"], run
            )
            wrong = _wrong_launch(chosen_cell, open_store)
        for warning in chosen_cell.warnings:
            handle(Progress(warning))
        failing = chosen_cell.cell
        folder = Path(options["output"] or f"repro-{failing.key[:8]}")
        if failing.kernel.language != "triton":
            return _preprocess(chosen_cell, folder, run.memory_mb)
        # Before the releases are downloaded.
        check_stage(failing)
        ready = provide_releases(
            failing.toolchain, failing.target, texts(options["releases"]), texts(options["triton"])
        )
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted before there was a compiler to ask: no file was written"
        ) from None
    with _compilers(chosen_cell, wrong, ready, run, allowance) as compilers:
        return _reduce(failing, compilers, options["runs"], folder, handle)


def _wrong_launch(chosen: ResolvedCell, store: Store) -> WrongLaunch | None:
    """Return the launch of a wrong result, which only a GPU shows; None for any other failure.

    Raises:
        UsageError: If the store lacks the launch.
    """
    if chosen.record is None or chosen.record.code != WRONG:
        return None
    wrong = stored_launch(store, chosen.cell.key)
    if wrong is None:
        raise UsageError(
            f"the store has no launch of {chosen.cell.key[:12]}, whose result is wrong on a GPU: "
            "measure it again with `flacheck measure`"
        )
    return wrong


@contextmanager
def _compilers(
    chosen: ResolvedCell,
    wrong: WrongLaunch | None,
    ready: Mapping[str, Toolchain],
    run: RunOptions,
    budget: Budget,
) -> Iterator[Compilers]:
    """Yield the compilers of a reduction; for a wrong result they run binaries on the GPU."""
    # A kernel of a package, or of flacheck's own corpus, is as trusted as these.
    trusts = chosen.trust or not isinstance(chosen.cell.kernel.origin, Cut)
    common = (ready, chosen.packages, run.memory_mb, budget)
    if wrong is None:
        with Compilers(*common, trust=trusts, jobs=run.workers) as compilers:
            yield compilers
        return
    right = wrong.launch.variants[0].toolchain
    if right not in ready:
        raise UsageError(f"--releases: {right} is missing, whose result is right")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(temporary_folder()))
        try:
            runner = stack.enter_context(CardRunner(LAUNCH_SECONDS, folder))
        except NoCard as error:
            key = chosen.cell.key[:12]
            raise IncompleteError(
                f"{key} computes a wrong result, which only a GPU shows: {error}"
            ) from None
        on_card = CardCompilers(
            *common,
            trust=trusts,
            jobs=run.workers,
            torch=torch_folder(),
            wrong=wrong,
            runner=runner,
            folder=folder,
        )
        yield stack.enter_context(on_card)


def _budget(text: str) -> Budget:
    """Return the budget of `600` compiles or of `120s`, `15m`, `1h`."""
    if text.isdecimal() and int(text) > 0:
        return Budget(compiles=int(text))
    seconds = durations.parse(text)
    if seconds is None or text[-1:].isdigit():
        hint = "expected a number of compiles (600) or a duration (120s, 15m, 1h)"
        raise UsageError(f"--budget {text}: {hint}")
    return Budget(seconds=seconds)


def _preprocess(chosen: ResolvedCell, folder: Path, memory: int) -> Repro:
    """Write the preprocessed unit and its command: no pass reduces C++."""
    cell = chosen.cell
    ready = provide_releases(cell.toolchain, cell.target, [cell.toolchain])
    with Compilers(ready, chosen.packages, memory) as compilers:
        paths = preprocessing.write(preprocessing.texts(cell, compilers), folder)
    return Repro(folder, tuple(path.name for path in paths))


def _reduce(failing: Cell, compilers: Compilers, runs: int, folder: Path, handle: OnEvent) -> Repro:
    """Show the failure, search for something smaller, and verify the best."""
    try:
        reproduction, interrupted = _begin(failing, compilers, handle)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted again before the original was shown to fail: no file was written"
        ) from None
    if not interrupted:
        interrupted = _search(reproduction, handle)
    return _finish(reproduction, runs, interrupted, folder, handle)


def _begin(failing: Cell, compilers: Compilers, handle: OnEvent) -> tuple[Reproduction, bool]:
    """Return the original, shown to fail, and whether an interrupt came meanwhile.

    An interrupted command still shows that the original fails, so that it leaves a script.
    """
    try:
        return begin(failing, compilers), False
    except KeyboardInterrupt:
        handle(
            Progress(
                "interrupted: showing that the original fails, to leave its script; press Ctrl-C "
                "again to skip this"
            )
        )
        compilers.reset()
        return begin(failing, compilers), True


def _search(reproduction: Reproduction, handle: OnEvent) -> bool:
    """Search for something smaller; return True if an interrupt ended the search."""
    interrupted = True
    with suppress(KeyboardInterrupt):
        _check_original(reproduction, handle)
        for improvement in reproduction.search():
            sentence = _sentence(improvement, reproduction.compilers.budget)
            handle(Progress(sentence, is_step=True))
        interrupted = False
    return interrupted


def _check_original(reproduction: Reproduction, handle: OnEvent) -> None:
    """Run the original's script, and report at once that its symptom does not show."""
    run = reproduction.run_original()
    if run is not None and run.status != SHOWS:
        toolchain = reproduction.cell.toolchain
        handle(
            Progress(
                f"{files.ORIGINAL} exits {run.status} under {toolchain}, not {SHOWS}: the failure "
                "does not show in a script of the whole kernel"
            )
        )


def _sentence(improvement: Improvement, budget: Budget) -> str:
    effort = improvement.effort
    rate = effort.ran / max(effort.seconds, 1e-3)
    size = f"{improvement.lines} lines, {improvement.nodes} nodes"
    sentence = f"{size} after {effort.ran} compiles, {rate:.1f} a second ({improvement.by})"
    if not isfinite(budget.most_seconds_left):
        return sentence
    left = durations.rounded(budget.most_seconds_left)
    return f"{sentence}; {100 * budget.share:.0f} % of the budget, at most {left} left"


def _finish(
    reproduction: Reproduction, runs: int, interrupted: bool, folder: Path, handle: OnEvent
) -> Repro:
    """Verify and write the best specimen."""
    if interrupted:
        handle(Progress("interrupted: verifying the best so far; press Ctrl-C again to skip this"))
        # Pending requests would delay the verification.
        reproduction.compilers.reset()
    # The draft is on disk before it is verified: a second interrupt may end that.
    drafts = files.write(reproduction.draft(), folder)
    try:
        result = reproduction.finish(runs, everywhere=not interrupted)
    except KeyboardInterrupt:
        names = " and ".join(map(str, drafts))
        raise Interrupted(f"interrupted again: wrote {names}, not verified") from None
    # Written again: the text holds what was verified.
    contents = files.contents(result)
    files.write(contents, folder)
    return Repro(folder, tuple(contents), result, interrupted)
