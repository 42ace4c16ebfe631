"""`flacheck.build_results` and related functions: build, verify and fetch published results."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flacheck.api.arguments import run_options, texts
from flacheck.api.options.commands import BuildOptions, VerifyOptions
from flacheck.api.options.declaration import PathLike, takes
from flacheck.errors import EmptySelection, UsageError
from flacheck.evidence.published.library import FOLDER, ResultsFolder, has_results, open_library
from flacheck.pipeline.events import OnEvent, Progress, drain, ignore
from flacheck.store import Store
from flacheck.toolchains import cache, torch_pins, triton_releases
from flacheck.toolchains.scratch import temporary_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from flacheck.capabilities.results.verifying import Verification
    from flacheck.evidence.published.form import FileEntry, Manifest


def library_of(results: PathLike | None) -> ResultsFolder:
    """Return the results of a folder or URL; flacheck's own by default.

    Results at a URL are copied into the cache once; `update_results` with the URL fetches newer
    ones.
    """
    if results is None:
        return open_library()
    from flacheck.capabilities.results import updating

    source = str(results)
    if not updating.is_url(source):
        return open_library(Path(source))
    folder = cache.root() / f"{FOLDER}-{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    if not (folder / "manifest.json").is_file():
        drain(updating.update(source, folder), None)
    return open_library(folder)


def library_or_none(results: PathLike | None) -> ResultsFolder | None:
    """Return the results of a folder or URL, or flacheck's own; None if it ships none."""
    try:
        return library_of(results)
    except UsageError:
        # An installation may lack results.
        if results is None and not has_results():
            return None
        raise


def library_if_intact(handle: OnEvent) -> ResultsFolder | None:
    """Return flacheck's own results; None, with a warning, if they are damaged."""
    try:
        return library_or_none(None)
    except UsageError as error:
        handle(Progress(f"published results do not count: {error}"))
        return None


@takes(BuildOptions)
def build_results(
    combinations: PathLike, *, on_event: OnEvent | None = None, **options: Unpack[BuildOptions]
) -> Sequence[FileEntry]:
    """Build published results from a file of combinations; an interrupted build goes on.

    Args:
        combinations: A YAML file as `results/combinations.yaml`.
        **options: The options of `flacheck results build`.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If the file is malformed.
        EmptySelection: If no combination is left.
        IncompleteError: If a combination could not be built; the others were.
    """
    from flacheck.capabilities.results import building
    from flacheck.evidence.published.combinations import read_combinations

    file = Path(combinations)
    if options["newest"]:
        _add_newest(file, on_event or ignore)
    packages, every = texts(options["package"]), options["every"]
    selection = building.select(read_combinations(file), options["shard"], packages, every)
    output, run = Path(options["output"]), run_options(options)
    request = building.Building(file, selection, output, run)
    with Store.open(options["store"]) as open_store:
        return drain(building.build(request, open_store), on_event)


def _add_newest(file: Path, handle: OnEvent) -> None:
    """Add the combinations of new releases to a file; each is an event."""
    from flacheck.capabilities.results import newest
    from flacheck.evidence.published.combinations import read_combinations
    from flacheck.source.packages.package import newest_version

    torch_pins.refresh()
    triton, warnings = triton_releases.here()
    for warning in warnings:
        handle(Progress(warning))
    finals = [str(version) for version in triton if not version.is_prerelease]
    entries = newest.new_entries(read_combinations(file), finals, newest_version)
    newest.add(file, entries)
    for entry in entries:
        handle(Progress(f"{file}: added{entry.line.removeprefix('  -')}"))


@takes(VerifyOptions)
def verify_results(
    *, on_event: OnEvent | None = None, **options: Unpack[VerifyOptions]
) -> Verification:
    """Compile drawn cells of published results again, and compare.

    Args:
        **options: The options of `flacheck results verify`.
        on_event: Receives each event while the cells compile.

    Raises:
        UsageError: If the results are damaged, or a number is not positive.
        EmptySelection: If nothing is published.
    """
    from flacheck.capabilities.results.verifying import verify

    sample, seed, places = options["sample"], options["seed"], options["places"]
    if sample < 1 or places < 1:
        raise UsageError("--sample and --places take numbers from 1 on")
    run, library = run_options(options), library_of(options["results"])
    with temporary_folder() as aside, Store.open(Path(aside)) as open_store:
        return drain(verify(library, open_store, sample, seed, run, places), on_event)


def results_site(output: PathLike, *, results: PathLike | None = None) -> Sequence[Path]:
    """Write the board of published results into a folder; return its files.

    Args:
        output: The folder; files of the same names are replaced.
        results: A folder or URL of results instead of flacheck's own.

    Raises:
        UsageError: If the results are damaged, or the folder cannot be written.
        EmptySelection: If nothing is published.
    """
    from flacheck.capabilities.known_results.lookup import KnownRequest, look_up
    from flacheck.evidence.published.compiled_kernels import compiled_kernels
    from flacheck.reports import board

    library = library_of(results)
    published = {about.partition("==")[0] for about in library.abouts}
    if not published:
        raise EmptySelection(f"{library.folder} holds no results to show")
    # The list begins with the most wanted packages.
    listed = [each.about.partition("==")[0] for each in library.combinations()]
    names = [name for name in dict.fromkeys([*listed, *sorted(published)]) if name in published]
    answers = [look_up(library, KnownRequest(name)) for name in names]
    folder = Path(output)
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in board.render(answers, compiled_kernels(library)):
            path = folder / name
            path.write_text(text, encoding="utf-8", errors="replace")
            paths.append(path)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror})") from None
    return paths


def update_results(results: PathLike, *, on_event: OnEvent | None = None) -> Manifest:
    """Copy newer results from a folder or URL into the user's cache, each file checked.

    Raises:
        UsageError: If a file is damaged, too large or malformed; nothing is changed.
        IncompleteError: If the URL cannot be read.
    """
    from flacheck.capabilities.results import updating

    source = str(results)
    return drain(updating.update(source), on_event)
