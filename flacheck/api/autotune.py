"""`flacheck.autotune`: how a release's autotuner treats a kernel's configurations and keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flacheck.api.arguments import (
    STORE,
    PathLike,
    Several,
    Texts,
    one_package,
    selection_of,
    subject_of,
)
from flacheck.capabilities.autotune import emit, gathering
from flacheck.capabilities.autotune.bench import Bench
from flacheck.capabilities.autotune.examination import Examination
from flacheck.capabilities.autotune.examined import TunerResult
from flacheck.capabilities.autotune.gathering import Gathered
from flacheck.errors import Exit, UsageError
from flacheck.inputs.expand import Selection
from flacheck.inputs.subject import line_of
from flacheck.model import Json
from flacheck.pipeline.events import OnEvent, Progress, ignore
from flacheck.reports import autotune as autotune_report
from flacheck.tables import targets


@dataclass(frozen=True)
class Autotuning:
    """The configurations and keys of a kernel's autotuners, by launch, release and target."""

    kernel: str
    results: tuple[TunerResult, ...]

    @property
    def exit_code(self) -> Exit:
        """The exit code that the command line returns."""
        if any(result.is_finding for result in self.results):
            return Exit.FINDINGS
        if not any(config.fate for result in self.results for config in result.configs):
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """Return the document flacheck.autotune/1."""
        document: Json = autotune_report.report(self.kernel, self.results).value
        return document

    def to_python(self) -> str:
        """Return the configurations that run everywhere as lists of `triton.Config`."""
        return "".join(emit.python(self.results))

    def to_fla(self) -> dict[str, str]:
        """Return the configurations that run everywhere as files for FLA_CONFIG_DIR, by name.

        Raises:
            UsageError: If no configuration runs under every release and target.
        """
        files = dict(emit.fla(self.results))
        if not files:
            why = "no configuration runs under every release and target"
            raise UsageError(f"there is nothing to emit: {why}")
        return files


def autotune(
    kernel: str,
    *,
    package: Texts | PathLike | None = None,
    launches: PathLike | None = None,
    matrix: PathLike | None = None,
    op: Several = (),
    target: Several = (),
    dtype: Several = (),
    toolchain: Texts = (),
    triton: Texts = (),
    torch: Texts = (),
    jobs: int = 0,
    fallback_budget: int = 48,
    fresh: bool = False,
    trust: bool = False,
    bench: bool = False,
    store: PathLike = STORE,
    on_event: OnEvent | None = None,
) -> Autotuning:
    """Compile every configuration of a kernel's autotuners, and check their keys.

    Args:
        kernel: A kernel's name, a glob, or a launches file, `FILE.jsonl[:LINE]`.
        package, launches, matrix: Where the kernel is from; one of them.
        op, target, dtype: The selection, one value or several.
        toolchain, triton, torch: The compilers: `installed`, versions or specifiers.
        jobs: Number of workers; 0 for the number of CPUs.
        fallback_budget: Settings to try for each failure; 0 looks for no fallbacks.
        fresh: Compile cells again that have a stored result.
        trust: Install and import the packages that a launches file names.
        bench: Time each compiling configuration on this machine's GPU.
        store: The folder of the store.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If several sources are named, or an argument is wrong.
        IncompleteError: If `bench` finds no GPU.
    """
    handle = on_event or ignore
    timing = None
    # First: without a GPU there is nothing to time.
    if bench:
        timing = Bench(trust=trust)
        card = timing.card
        handle(Progress(f"timing on {card.name} with Triton {card.triton} and torch {card.torch}"))
        if card.target and not target:
            target = card.target
    selection = selection_of(
        op=op, target=target, dtype=dtype, toolchain=toolchain, triton=triton, torch=torch
    )
    gathered = _gather(kernel, selection, package, launches, matrix, trust)
    for note in gathered.notes:
        handle(Progress(note))
    examination = Examination(kernel, gathered, jobs, fresh=fresh)
    for line in examination.ruled_out():
        handle(Progress(f"before compiling: {line}"))
    folder = Path(store)
    for event in examination.compile(folder):
        handle(event)
    results = examination.results(folder, fallback_budget)
    if timing is not None:
        results = examination.timed(results, timing)
    return Autotuning(kernel, tuple(results))


def _gather(
    kernel: str,
    selection: Selection,
    package: Texts | PathLike | None,
    launches: PathLike | None,
    matrix: PathLike | None,
    trust: bool,
) -> Gathered:
    """Return the launches of the one source that is named."""
    names = tuple(targets.find(name).name for name in selection.targets)
    selection = replace(selection, targets=names, kernels=(kernel,))
    file, line = line_of(kernel)
    given = {"package": package, "launches": launches, "matrix": matrix}
    sources = [f"--{name}" for name, value in given.items() if value is not None]
    # KERNEL may be a file by itself: the options alone do not tell how many sources there are.
    if file.suffix == ".jsonl":
        sources.append(kernel)
        launches, selection = file, replace(selection, kernels=())
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} were given: name one of them")
    about = subject_of(matrix, one_package(package, "autotune"), trust)
    if launches is not None:
        return gathering.of_launches(Path(launches), selection, line, trust)
    if about.package is not None:
        return gathering.of_package(about.package, selection)
    if about.matrix is not None and line_of(about.matrix)[0].suffix == ".jsonl":
        file, line = line_of(about.matrix)
        return gathering.of_launches(file, selection, line, trust)
    return gathering.of_matrix(about.matrix, selection)
