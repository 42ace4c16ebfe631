"""`flacheck.autotune`: how a release's autotuner treats a kernel's configurations and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flacheck.api.arguments import (
    one_package,
    run_options,
    selection_of,
    subject_of,
)
from flacheck.api.options.commands import AutotuneOptions
from flacheck.api.options.declaration import takes
from flacheck.capabilities.autotune import emit as emit_forms
from flacheck.capabilities.autotune import fla_package, gathering
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
from flacheck.engine.card_runner import CardRunner, NoCard
from flacheck.engine.package_builds import provide_package
from flacheck.errors import Exit, UsageError
from flacheck.model import Json
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.pipeline.measurement.running import LAUNCH_SECONDS
from flacheck.reports import autotune as autotune_report
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.subject import line_of
from flacheck.tables import targets
from flacheck.toolchains.scratch import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

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


@takes(AutotuneOptions)
def autotune(
    kernel: str, *, on_event: OnEvent | None = None, **options: Unpack[AutotuneOptions]
) -> Autotuning:
    """Compile every configuration of a kernel's autotuners, and check their keys.

    With `emit="fla"` a launch of each key is examined, and the package must read configuration
    files; otherwise one launch of each kernel is examined.

    Args:
        kernel: A kernel's name, a glob, or a launches file, `FILE.jsonl[:LINE]`.
        **options: The options of `flacheck autotune`.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If several sources are named, or an argument is wrong.
        UsageError: If `bench` finds no GPU.
    """
    emit = options["emit"]
    if emit not in _EMITTED:
        raise UsageError(f"--emit {emit}: expected fla or python")
    handle = on_event or ignore
    # First: without a GPU there is nothing to time.
    if options["bench"]:
        card = _card()
        handle(Progress(f"timing on {card['name']}"))
        if not options["target"]:
            options["target"] = "sm" + "".join(map(str, card["capability"]))
    selection = selection_of(options)
    every_key = emit == "fla"
    tuned_launches = _gather(kernel, selection, options, every_key)
    for note in tuned_launches.notes:
        handle(Progress(note))
    if every_key:
        # Before anything is compiled: files are useless to a package that reads none.
        for line in fla_package.check(tuned_launches.launches, tuned_launches.packages):
            handle(Progress(line))
    tuning = plan_tuning(kernel, tuned_launches)
    for line in describe_ruled_out(tuning):
        handle(Progress(f"before compiling: {line}"))
    folder, run = Path(options["store"]), run_options(options)
    records = drain(compile_trials(tuning, folder, run), on_event)
    results = judge_trials(tuning, records, folder, run, options["fallback_budget"])
    interrupted = False
    if options["bench"]:
        with temporary_folder() as name, _runner(Path(name)) as runner:
            times = time_results(tuning, results, runner, Path(name), folder, run)
            results, interrupted = drain(times, on_event)
    if interrupted:
        handle(Progress("interrupted: the other configurations were not timed"))
    reading: list[str] = []
    for package_folder in tuned_launches.packages.values():
        reading += fla_package.reading_kernels(package_folder)
    return Autotuning(kernel, tuple(results), tuple(reading), interrupted)


def _runner(folder: Path) -> CardRunner:
    return CardRunner(LAUNCH_SECONDS, folder)


def _card() -> Mapping[str, Any]:
    """Return the facts of the GPU; UsageError without one."""
    try:
        with temporary_folder() as name, _runner(Path(name)) as runner:
            return runner.card
    except NoCard as error:
        raise UsageError(f"--bench needs an NVIDIA GPU: {error}") from None


def _gather(
    kernel: str,
    selection: Selection,
    options: AutotuneOptions,
    every_key: bool,
) -> TunedLaunches:
    """Return the launches of the one source that is named."""
    names = tuple(targets.find(name).name for name in selection.targets)
    selection = replace(selection, targets=names, kernels=(kernel,))
    file, line = line_of(kernel)
    launches, matrix, trust = options["launches"], options["matrix"], options["trust"]
    source_options = {"package": options["package"], "launches": launches, "matrix": matrix}
    sources = [f"--{name}" for name, value in source_options.items() if value is not None]
    # KERNEL may be a file by itself: the options alone do not tell how many sources there are.
    if file.suffix == ".jsonl":
        sources.append(kernel)
        launches, selection = file, replace(selection, kernels=())
    if len(sources) > 1:
        raise UsageError(f"{' and '.join(sources)} were given: name one of them")
    about = subject_of(matrix, one_package(options["package"], "autotune"), trust)
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
