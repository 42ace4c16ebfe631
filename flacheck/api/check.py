"""`flacheck.check`: torch, Triton, driver and packages of an environment; nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from flacheck.api.arguments import texts, torch_requirements
from flacheck.api.options.commands import CheckOptions
from flacheck.api.options.declaration import PathLike, takes
from flacheck.api.results import library_or_none
from flacheck.capabilities.check.checking import PackageEvidence, judge_environment
from flacheck.capabilities.check.document import Checked
from flacheck.capabilities.check.environment import (
    Build,
    Environment,
    installed_builds,
    torch_release,
)
from flacheck.capabilities.gate import sources
from flacheck.errors import UsageError
from flacheck.evidence.measured.comparison import stored_measurements
from flacheck.evidence.published.evidence import card_comparisons, judged_evidence
from flacheck.evidence.published.form import Header
from flacheck.evidence.published.library import ResultsFolder
from flacheck.model.answer import Point
from flacheck.source.packages import package as packages
from flacheck.store import FILE, Store
from flacheck.subjects.inputs import nearby
from flacheck.tables import targets
from flacheck.toolchains import doctor, torch_pins, triton_releases

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes(CheckOptions)
def check(**options: Unpack[CheckOptions]) -> Checked:
    """Return whether an environment works: its parts together, and its packages on its GPU.

    Metadata of installed distributions is read, nothing is imported, compiled or fetched.

    Args:
        **options: The options of `flacheck check`.

    Raises:
        UsageError: If a file or an argument is wrong.
    """
    library = library_or_none(options["results"])
    distributions = nearby.distributions(Path.cwd())
    environment = _environment(options, distributions, library)
    folder = Path(options["store"])
    evidence: dict[str, PackageEvidence] = {}
    with ExitStack() as stack:
        store = None
        if (folder / FILE).is_file():
            store = stack.enter_context(Store.open(folder, create=False))
        for about in environment.packages:
            evidence[about] = _evidence(about, environment, store, library)
    machine: Iterator[doctor.Check] = iter(())
    if environment.card is not None:
        machine = doctor.training_checks()
    return judge_environment(environment, evidence, machine)


def _evidence(
    about: str, environment: Environment, store: Store | None, library: ResultsFolder | None
) -> PackageEvidence:
    """Return what is on record about a package on the environment's GPU."""
    target = environment.target
    if target is None:
        return PackageEvidence()
    standings = judged_evidence(about, [target], store, library)
    headers: dict[str, list[Header]] = {}
    if library is not None:
        for entry in library.entries(about, accepts=lambda entry: entry.target == target):
            headers.setdefault(entry.toolchain, []).append(library.header(entry))
    documents = stored_measurements(store) if store is not None else []
    releases = dict.fromkeys([*headers, *(name for each in documents for name in each.toolchains)])
    measured = {}
    for toolchain in releases:
        own = card_comparisons(headers.get(toolchain, ()), documents, about, (toolchain, target))
        # Times on another GPU of the same target say nothing about the one that is here.
        card = environment.card
        measured[toolchain] = [each for each in own if card is None or each.card == card.name]
    return PackageEvidence(standings, measured)


def _environment(
    options: CheckOptions, distributions: Iterable[Distribution], library: ResultsFolder | None
) -> Environment:
    torch, tritons = installed_builds(distributions)
    card = None if options["target"] else nearby.read_card()
    target = card.target if card else None
    if options["target"]:
        target = targets.find(options["target"]).name
    source = "the installed environment"
    environment = Environment(
        torch, tritons, card, target, (), source, _excluding((torch, *tritons))
    )
    names = list(texts(options["package"]))
    if options["requirements"] is not None:
        environment, pinned = _of_file(environment, options["requirements"], library)
        names = names or pinned
    environment = _with_named(environment, options)
    installed = {str(canonicalize_name(each.metadata["Name"])): each for each in distributions}
    if names:
        chosen = tuple(_package(name, installed, library) for name in names)
        return replace(environment, packages=chosen)
    found = nearby.environment_packages(distributions)
    return replace(environment, packages=tuple(each.spec for each in found if "==" in each.spec))


def _with_named(environment: Environment, options: CheckOptions) -> Environment:
    """Return the environment with the releases that the options name."""
    if options["torch"] is not None:
        environment = _with_torch(environment, options["torch"])
    if options["triton"] is not None:
        environment = replace(
            environment,
            torch=environment.torch if options["torch"] else None,
            tritons=(Build("triton", options["triton"]),),
        )
    if options["torch"] or options["triton"]:
        environment = replace(
            environment, card=None, source="the named releases", contradictions=()
        )
    return environment


def _excluding(builds: Iterable[Build | None]) -> tuple[Point, ...]:
    """Return the pins of this folder's files that exclude what is installed."""
    points: dict[Point, None] = {}
    pins = [pin for each in sources.in_folder(Path.cwd()) for pin in each.pins]
    for build in filter(None, builds):
        for pin in pins:
            if pin.name == build.name and build.release and not pin.admits(build.release):
                text = f"{pin.where} requires {pin.requirement}, and {build.label} is installed"
                points[Point(text, f"pip install '{pin.requirement}', or change the pin")] = None
    return tuple(points)


def _of_file(
    environment: Environment, file: PathLike, library: ResultsFolder | None
) -> tuple[Environment, list[str]]:
    """Return the environment that a file with pins describes, and its packages with results."""
    path = Path(file)
    exact: dict[str, str] = {}
    for installation in sources.of_files([path]):
        for pin in installation.pins:
            for version in pin.exact[:1]:
                exact.setdefault(pin.name, version)
    environment = replace(environment, torch=None, tritons=(), source=str(file), contradictions=())
    if "torch" in exact:
        environment = _with_torch(environment, exact["torch"])
    if "triton" in exact:
        environment = replace(environment, tritons=(Build("triton", exact["triton"]),))
    abouts = library.abouts if library is not None else []
    names = {about.partition("==")[0] for about in abouts if "==" in about}
    pins = sources.packages_of([path], names)
    return environment, [f"{pin.name}=={pin.version}" for pin in pins if pin.version]


def _with_torch(environment: Environment, text: str) -> Environment:
    """Return the environment with a torch release and the newest Triton that it admits."""
    (requirement,) = torch_requirements([text])
    version = text.removeprefix("torch").removeprefix("==")
    specifiers = SpecifierSet(requirement.removeprefix("torch"))
    matching = list(specifiers.filter(torch_pins.pins()))
    if matching:
        version = max(matching, key=Version)
    torch = torch_release(version)
    tritons = []
    for pin in torch.requires or ():
        tritons = list(pin.specifier.filter(triton_releases.known_releases()))
    newest = (Build("triton", max(tritons, key=Version)),) if tritons else ()
    return replace(environment, torch=torch, tritons=newest)


def _package(text: str, installed: dict[str, Distribution], library: ResultsFolder | None) -> str:
    """Return `NAME==VERSION`; a name alone takes the installed version, else the newest result.

    Raises:
        UsageError: If a name alone is neither installed nor published.
    """
    if "==" in text:
        return "==".join(packages.parse(text))
    name = canonicalize_name(text)
    if name in installed:
        return f"{name}=={Version(installed[name].version).public}"
    abouts = library.abouts if library is not None else []
    published = [about for about in abouts if about.startswith(f"{name}==")]
    if not published:
        raise UsageError(f"{text} is not installed here; write --package {text}==VERSION")
    return packages.newest_first(published)[0]
