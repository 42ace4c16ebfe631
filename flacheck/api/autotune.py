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
from flacheck.capabilities.autotune import emit as emit_forms
from flacheck.capabilities.autotune import fla_package, gathering
from flacheck.capabilities.autotune.bench import Bench
from flacheck.capabilities.autotune.emit import FlaFile
from flacheck.capabilities.autotune.examination import (
    compile_trials,
    describe_ruled_out,
    judge_trials,
    plan_tuning,
    time_results,
)
from flacheck.capabilities.autotune.gathering import TunedLaunches
from flacheck.capabilities.autotune.results import TunerResult
from flacheck.engine.package_builds import provide_package
from flacheck.errors import Exit, UsageError
from flacheck.model import Json
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.pipeline.job import RunOptions
from flacheck.reports import autotune as autotune_report
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import line_of
from flacheck.tables import targets

_EMITTED = (None, "fla", "python")


@dataclass(frozen=True)
class Autotuning:
    """The configurations and keys of a kernel's autotuners, by launch, release and target.

    Attributes:
        kernel: The name or glob of the kernel.
        results: One for each launch, release and target.
        reading: The package's kernels that read configuration files of FLA_CONFIG_DIR.
        interrupted: True if an interrupt ended the timing; the timings before it are kept.
    """

    kernel: str
    results: tuple[TunerResult, ...]
    reading: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def exit_code(self) -> Exit:
        """The exit code that the command line returns."""
        if self.interrupted:
            return Exit.INTERRUPTED
        if any(result.is_finding for result in self.results):
            return Exit.FINDINGS
        if not any(config.fate for result in self.results for config in result.configs):
            return Exit.INCOMPLETE
        return Exit.OK

    @property
    def findings(self) -> list[str]:
        """A sentence for each finding."""
        lines = [line for result in self.results for line in result.findings]
        return list(dict.fromkeys(lines))

    @property
    def left_out(self) -> list[str]:
        """A sentence for each configuration that `to_python` leaves out."""
        lines = []
        for choice in emit_forms.choices(self.results):
            lines += [f"{choice.kernel}: left out {line}" for line in choice.left_out()]
        return lines

    def to_json(self) -> Json:
        """Return the document flacheck.autotune/1."""
        document: Json = autotune_report.report(self.kernel, self.results).value
        return document

    def to_python(self) -> str:
        """Return the configurations that run everywhere as lists of `triton.Config`."""
        return "".join(emit_forms.python(self.results))

    def to_fla(self) -> list[FlaFile]:
        """Return the files for FLA_CONFIG_DIR, with the sizes that were examined.

        A file without `sizes` has no configuration to write.
        """
        return list(emit_forms.fla(self.results, self.reading))


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
    emit: str | None = None,
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
        emit: `fla` examines a launch for each key, and requires a package that reads
            configuration files; `python` or None examine one launch of each kernel.
        bench: Time each compiling configuration on this machine's GPU.
        store: The folder of the store.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If several sources are named, or an argument is wrong.
        IncompleteError: If `bench` finds no GPU.
    """
    if emit not in _EMITTED:
        raise UsageError(f"--emit {emit}: expected fla or python")
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
    every_key = emit == "fla"
    tuned_launches = _gather(kernel, selection, package, launches, matrix, trust, every_key)
    for note in tuned_launches.notes:
        handle(Progress(note))
    if every_key:
        # Before anything is compiled: files are useless to a package that reads none.
        for line in fla_package.check(tuned_launches.launches, tuned_launches.packages):
            handle(Progress(line))
    tuning = plan_tuning(kernel, tuned_launches)
    for line in describe_ruled_out(tuning):
        handle(Progress(f"before compiling: {line}"))
    folder, options = Path(store), RunOptions(jobs=jobs, fresh=fresh)
    records = drain(compile_trials(tuning, folder, options), on_event)
    results = judge_trials(tuning, records, folder, options, fallback_budget)
    if timing is not None:
        results = time_results(tuning, results, timing)
    interrupted = timing is not None and timing.interrupted
    if interrupted:
        handle(Progress("interrupted: the other configurations were not timed"))
    reading: list[str] = []
    for package_folder in tuned_launches.packages.values():
        reading += fla_package.reading_kernels(package_folder)
    return Autotuning(kernel, tuple(results), tuple(reading), interrupted)


def _gather(
    kernel: str,
    selection: Selection,
    package: Texts | PathLike | None,
    launches: PathLike | None,
    matrix: PathLike | None,
    trust: bool,
    every_key: bool,
) -> TunedLaunches:
    """Return the launches of the one source that is named."""
    names = tuple(targets.find(name).name for name in selection.targets)
    selection = replace(selection, targets=names, kernels=(kernel,))
    file, line = line_of(kernel)
    source_options = {"package": package, "launches": launches, "matrix": matrix}
    sources = [f"--{name}" for name, value in source_options.items() if value is not None]
    # KERNEL may be a file by itself: the options alone do not tell how many sources there are.
    if file.suffix == ".jsonl":
        sources.append(kernel)
        launches, selection = file, replace(selection, kernels=())
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} were given: name one of them")
    about = subject_of(matrix, one_package(package, "autotune"), trust)
    if launches is not None:
        return gathering.of_launches(Path(launches), selection, line, trust, every_key)
    if about.package is not None:
        if every_key:
            # A capture takes minutes, in vain for a package that reads no files.
            fla_package.require(provide_package(about.package))
        return gathering.of_package(about.package, selection, every_key)
    if about.matrix is not None and line_of(about.matrix)[0].suffix == ".jsonl":
        file, line = line_of(about.matrix)
        return gathering.of_launches(file, selection, line, trust, every_key)
    return gathering.of_matrix(about.matrix, selection, every_key)
