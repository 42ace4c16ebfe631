"""`flacheck.measure`: compiled launches of several releases on this machine's GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import one_package, run_options, selection_of, subject_of
from flacheck.api.options.commands import MeasureOptions
from flacheck.api.options.declaration import PathLike, takes
from flacheck.capabilities.measure.measuring import (
    document_of,
    is_complete,
    judge_disagreements,
    read_document,
    without_samples,
)
from flacheck.engine.card_runner import CardRunner, NoCard
from flacheck.errors import Exit, IncompleteError, UsageError
from flacheck.evidence.measured.comparison import FIELD
from flacheck.evidence.measured.results import MeasureDocument
from flacheck.model import Json, Purpose
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.pipeline.job import Job
from flacheck.pipeline.measurement import bundle as bundles
from flacheck.pipeline.measurement import wrong_results
from flacheck.pipeline.measurement.bundle import Bundle, BundledLaunch
from flacheck.pipeline.measurement.collecting import collect, without_binaries
from flacheck.pipeline.measurement.launches import measured_launches
from flacheck.pipeline.measurement.running import LAUNCH_SECONDS, MeasurementJournal, run_bundle
from flacheck.pipeline.measurement.wrong_results import wrong_launches, wrong_records
from flacheck.pipeline.run import environment
from flacheck.store import Store
from flacheck.toolchains.scratch import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

# A symbol of `guest/inference/shapes.py` with a size that an imitated tensor can have.
_SIZE = re.compile(r"([A-Z]{1,2})=([1-9][0-9]{0,6})")
# The ending of a bundle's name.
SUFFIX = ".bundle"


@dataclass(frozen=True)
class Measurement:
    """A measurement on this machine's GPU, or the bundle that was written for another one's.

    Attributes:
        document: The results; None if a bundle was written.
        bundle: The written file.
        launches: The number of launches in the bundle.
    """

    document: MeasureDocument | None = None
    bundle: Path | None = None
    launches: int = 0

    @property
    def exit_code(self) -> Exit:
        """The exit code that the command line returns."""
        if self.document is None:
            return Exit.OK
        if self.document.wrong:
            return Exit.FINDINGS
        if not is_complete(self.document):
            return Exit.INCOMPLETE
        return Exit.OK

    def to_json(self) -> Json:
        """Return the document flacheck.measure/1; UsageError if a bundle was written."""
        if self.document is None:
            raise UsageError(f"nothing was measured: {self.bundle} is for another machine's GPU")
        return self.document.to_json()


@takes(MeasureOptions)
def measure(
    subject: PathLike | None = None,
    *,
    on_event: OnEvent | None = None,
    **options: Unpack[MeasureOptions],
) -> Measurement:
    """Run compiled launches of several releases side by side: their results and times.

    The releases are compared with the first one.

    Args:
        subject: A launches file, or a bundle that another machine wrote.
        **options: The options of `flacheck measure`.
        on_event: Receives each event.

    Raises:
        UsageError: If an argument, a launches file or a bundle is wrong.
        EmptySelection: If no launch can be measured.
        IncompleteError: If there is no GPU to measure on.
    """
    configs, bundle, results = options["configs"], options["bundle"], options["results"]
    seed, fresh = options["seed"], options["fresh"]
    if configs not in ("usual", "own"):
        raise UsageError(f"--configs {configs}: expected usual or own")
    handle = on_event or ignore
    store = Path(options["store"])
    with temporary_folder() as name:
        folder = Path(name)
        if subject is not None and Path(subject).suffix == SUFFIX:
            if bundle is not None:
                raise UsageError(f"{subject} is a bundle already: leave --bundle out to run it")
            read = bundles.read(Path(subject), folder)
            document = _run(read, folder, store, seed, fresh, str(subject), handle)
            with Store.open(store) as open_store:
                _keep(open_store, document, read.manifest.launches, seed)
            return Measurement(document)
        package, captured = one_package(options["package"], "measure"), options["captured"]
        about = subject_of(subject, package, options["trust"], configs, captured)
        about = replace(about, shape=shape_of(options["shape"], package is not None))
        run = replace(run_options(options), binaries=True)
        selection = selection_of(options)
        job = Job(replace(about, compares=True), selection, run, purpose=Purpose.MEASURE)
        if bundle is None and results is None:
            # First: without a GPU the compiles are of no use here.
            with _runner(folder, None):
                pass
        launches = measured_launches(job)
        with Store.open(store) as open_store:
            if results is not None:
                document = read_document(Path(results))
            else:
                full_bundle = drain(collect(job, launches, open_store, folder), handle)
                if bundle is not None:
                    bundles.write(Path(bundle), full_bundle)
                    count = len(full_bundle.manifest.launches)
                    return Measurement(bundle=Path(bundle), launches=count)
                document = _run(full_bundle, folder, store, seed, fresh, None, handle)
            document = drain(judge_disagreements(document, launches), handle)
            _keep(open_store, document, without_binaries(launches), seed)
    return Measurement(document)


def shape_of(text: str | None, is_package: bool) -> tuple[tuple[str, int], ...]:
    """Return sizes by the symbols of dimensions from `T=8192,B=4`.

    Raises:
        UsageError: If the text has another form, or is not about a package.
    """
    if text is None:
        return ()
    if not is_package:
        raise UsageError("--shape calls the operators of a package: name one with --package")
    sizes: dict[str, int] = {}
    for part in text.replace(" ", "").split(","):
        match = _SIZE.fullmatch(part)
        if match is None:
            raise UsageError(f"--shape {text}: expected symbols with sizes, such as T=8192,B=4")
        sizes[match[1]] = int(match[2])
    return tuple(sorted(sizes.items()))


def _run(
    bundle: Bundle,
    folder: Path,
    store: Path,
    seed: int,
    fresh: bool,
    file: str | None,
    on_event: OnEvent,
) -> MeasureDocument:
    with _runner(folder, file) as runner:
        _check_card(runner, bundle)
        journal = MeasurementJournal.of(store, bundle, runner.card, seed)
        if fresh:
            journal.discard()
        on_event(Progress(f"measuring on {runner.card['name']}"))
        findings = drain(run_bundle(bundle, runner, seed, journal), on_event)
        return document_of(bundle.manifest, findings, runner.card, seed)


@contextmanager
def _runner(folder: Path, file: str | None) -> Iterator[CardRunner]:
    """Yield the runner; without a GPU raise IncompleteError with the commands to use."""
    with ExitStack() as stack:
        try:
            runner = stack.enter_context(CardRunner(LAUNCH_SECONDS, folder))
        except NoCard as error:
            here = "flacheck measure SUBJECT --triton A,B --bundle FILE.bundle"
            there = f"flacheck measure {file or 'FILE.bundle'}"
            raise IncompleteError(
                f"no NVIDIA GPU can be used here ({error}): write a bundle with `{here}`, and run "
                f"`{there}` on a machine with one"
            ) from None
        yield runner


def _check_card(runner: CardRunner, bundle: Bundle) -> None:
    """Raise UsageError for binaries of another GPU architecture."""
    here = "sm" + "".join(map(str, runner.card["capability"]))
    if here != bundle.manifest.target:
        raise UsageError(
            f"the binaries are for {bundle.manifest.target}, and {runner.card['name']} is {here}: "
            f"compile for it with --target {here}"
        )


def _keep(
    store: Store, document: MeasureDocument, launches: Sequence[BundledLaunch], seed: int
) -> None:
    """Store a measurement, with a failure for each wrong result, in a run of its own."""
    keys = [result.key for _, result in document.wrong]
    records = list(wrong_records(document, store.latest_records(keys)))
    run = store.begin_run(environment(), document.about, {}, purpose=Purpose.MEASURE)
    store.add_many(run, records)
    wrong = list(wrong_launches(document, launches, seed))
    measurement = without_samples(document).to_json()
    store.finish_run(run, {FIELD: measurement, wrong_results.FIELD: wrong})
