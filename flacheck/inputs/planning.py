"""From what a person asked to what a scan needs: a matrix, its kernels, compilers and packages, and
the cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from flacheck import toolchains
from flacheck.capture.cards import target_of
from flacheck.engine.loop import Question, Untried
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import EmptySelection, ToolchainError, UsageError
from flacheck.inputs import corpus, launches, matrix, replay
from flacheck.inputs.expand import DEFAULT_TARGETS, Selection, Source, check_kernels, expand, named
from flacheck.inputs.launches import RecordedLaunch
from flacheck.inputs.matrix import Block, Matrix
from flacheck.model import Attempt, Cell, Json, Kernel, Verdict, digest
from flacheck.packages import package as packages
from flacheck.packages.package import Package
from flacheck.source.reach import first_length, reached
from flacheck.tables import targets
from flacheck.toolchains.base import Choice, Progress, Toolchain, silent

REACHES = 6
_SHARD = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class Plan:
    """The cells of a scan with what their workers need. `warnings` are for the user's eyes;
    `attempts` hold, by key, what is known of cells without a worker; `coverage` says what of a
    package was captured.
    """

    matrix: Matrix
    cells: list[Cell]
    choices: Mapping[str, Choice]
    packages: Mapping[str, Package]
    forms: Mapping[tuple[str | None, str], tuple[str, str]]
    warnings: tuple[str, ...] = ()
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    coverage: tuple[Json, ...] = ()

    def question(
        self, memory_mb: int, fresh: bool, timeout: float | None, progress: Progress
    ) -> Question:
        """The plan as the scan loop asks it; compilers are installed when their first cell comes
        up.
        """
        provide = _Provider(self, memory_mb, progress)
        return Question(
            self.cells, provide.kind_of, self._refusal, fresh, timeout, self._reach, self.attempts
        )

    def _reach(self, cell: Cell) -> Json:
        """From which sequence length the package's layers reach the cell's kernel, read off its
        sources.
        """
        package = self.packages.get(cell.kernel.package or "")
        if package is None:
            return {}
        reaches = reached(package.path, cell.kernel.name)
        named = [entry.to_json() for entry in reaches if entry.plain][:REACHES]
        return {"first_length": first_length(reaches), "reached_by": named}

    def _refusal(self, cell: Cell) -> str | None:
        return self.choices[cell.toolchain].knows(cell.target)


@dataclass
class _Provider:
    """Installs each toolchain once and remembers what came of it."""

    plan: Plan
    memory_mb: int
    progress: Progress
    _kinds: dict[tuple[str, str | None, bool], WorkerKind | Untried] = field(default_factory=dict)
    _toolchains: dict[str, Toolchain | Untried] = field(default_factory=dict)

    def kind_of(self, cell: Cell) -> WorkerKind | Untried:
        toolchain = self._toolchain(cell.toolchain)
        if isinstance(toolchain, Untried):
            return toolchain
        lacking = toolchain.lacks(cell.target)
        if lacking:
            return Untried(Verdict.UNKNOWN, lacking)
        identity = (cell.toolchain, cell.kernel.package, "import" in cell.kernel.origin)
        if identity not in self._kinds:
            self._kinds[identity] = self._kind(toolchain, *identity[1:])
        return self._kinds[identity]

    def _toolchain(self, name: str) -> Toolchain | Untried:
        if name not in self._toolchains:
            self._toolchains[name] = self._provided(self.plan.choices[name])
        return self._toolchains[name]

    def _provided(self, choice: Choice) -> Toolchain | Untried:
        if choice.reason:
            return Untried(Verdict.UNKNOWN, choice.reason, "FC903")
        try:
            return toolchains.provide(choice, self.progress)
        except ToolchainError as error:
            return Untried(Verdict.UNKNOWN, str(error), "FC903")

    def _kind(self, toolchain: Toolchain, package: str | None, imported: bool) -> WorkerKind:
        provided = self.plan.packages.get(package) if package is not None else None
        return worker_kind(toolchain, provided, imported, self.memory_mb)


def worker_kind(
    toolchain: Toolchain, package: Package | None, imported: bool, memory_mb: int
) -> WorkerKind:
    """A worker with a package's kernels or, without one, with our own; beside torch where they are
    `imported`.
    """
    config: Json = {**toolchain.worker_config(), "memory_mb": memory_mb}
    if package is not None:
        config["packages"] = {
            package.identity: {"path": package.path, "modules": list(package.modules)}
        }
    else:
        config["corpus"] = str(corpus.folder())
    name = f"{toolchain.identity} {package.identity if package else 'corpus'}"
    if imported:
        name, config["torch"] = f"{name} beside torch", replay.torch_folder()
    return WorkerKind(name, config, dict(toolchain.environment))


def plan(
    name: str,
    selection: Selection,
    until: str | None = None,
    shard: str | None = None,
    progress: Progress = silent,
    trust: bool = False,
    configs: str = "own",
    line: int | None = None,
) -> Plan:
    """Read the matrix or launches file (of the latter one `line`), provide its packages, and expand
    it.

    `configs`, of a launches file: `usual` compiles one configuration of each kernel and dtype,
    `own` every configuration of every distinct launch.

    Raises UsageError for unknown names and malformed files, EmptySelection when no cell is left.
    """
    for target in selection.targets:
        targets.find(target)
    if name.endswith(".jsonl"):
        found, sources, provided, warnings = _recorded(
            Path(name), selection, trust, configs, progress, line
        )
    else:
        found, warnings = matrix.find(name), ()
        provided = {
            spec: packages.provide_package(spec, progress)
            for spec in _asked_packages(found, selection)
        }
        sources = sources_of(found, provided)
    resolver = Resolver()
    cells = list(expand(found, sources, selection, resolver, until))
    cells = sharded(cells, shard)
    if not cells:
        raise EmptySelection(
            f"nothing in {found.name} matches the selection; `flacheck list matrices` shows what is in it"
        )
    warnings += tuple(dict.fromkeys(resolver.warnings))
    return Plan(found, cells, resolver.choices, provided, _forms(sources), warnings)


def _recorded(
    file: Path,
    selection: Selection,
    trust: bool,
    configs: str,
    progress: Progress,
    line: int | None,
) -> tuple[Matrix, list[Source], dict[str, Package], tuple[str, ...]]:
    """A launches file as a matrix, its kernels with their own configurations; and what to warn of."""
    recorded = launches.read(file, trust=trust)
    listed = recorded.launches if line is None else (launches.at(file, line, trust),)
    compiled = launches.one_each(listed) if configs == "usual" else listed
    wanted = [
        entry for entry in compiled if not selection.kernels or _named(selection, entry.kernel)
    ]
    provided = replay.provided(file, wanted, trust, progress)
    axes = {"target": _recorded_targets(recorded.header), "configs": (configs,)}
    return (
        Matrix(file.stem, str(file), (Block(axes),)),
        replay.sources(compiled, provided),
        provided,
        _guessed(wanted),
    )


def _guessed(wanted: Sequence[RecordedLaunch]) -> tuple[str, ...]:
    """A word on launches that may not be what the program launches on its card."""
    guessed = [entry for entry in wanted if entry.guessed]
    if not guessed:
        return ()
    return (
        f"{len(guessed)} of {len(wanted)} launches may rest on values that the fake device made up, read first at "
        f"{guessed[0].guessed}: on the card they may be others",
    )


def _named(selection: Selection, kernel: str) -> bool:
    return any(named(glob, kernel) for glob in selection.kernels)


def _recorded_targets(header: Mapping[str, object]) -> tuple[str, ...]:
    """The target of the card that the launches were recorded on; the usual ones where nobody knows
    the card.
    """
    target = target_of(str(header.get("device")))
    return (target,) if target else DEFAULT_TARGETS


def _asked_packages(found: Matrix, selection: Selection) -> list[str]:
    """The matrix's packages, unless the selection only asks for kernels of our own."""
    known = corpus.load()
    check_kernels(selection.kernels, [*known, *found.launches])
    wanted = not selection.kernels or any(_needs_package(glob, found) for glob in selection.kernels)
    return list(found.packages) if wanted else []


def _needs_package(glob: str, found: Matrix) -> bool:
    try:
        check_kernels([glob], [kernel for kernel in found.launches if ":" in kernel])
    except UsageError:
        return False
    return True


def sources_of(found: Matrix, provided: Mapping[str, Package]) -> list[Source]:
    """A matrix's kernels, our own and the packages', with their launches."""
    return [
        *_own_sources(found),
        *(s for spec, package in provided.items() for s in package_sources(found, spec, package)),
    ]


def _own_sources(found: Matrix) -> list[Source]:
    """Our kernels with what they declare; a matrix's launches of one stand in for its own."""
    own = []
    for name, entry in corpus.load().items():
        declared = {**entry.launch, "configs": list(entry.configs), "keys": list(entry.keys)}
        launches = found.launches.get(name) or (declared,)
        if name in found.launches or _corpus_wanted(found):
            own.append(
                Source(
                    entry.kernel, tuple({**declared, **launch} for launch in launches), entry.shapes
                )
            )
    return own


def _corpus_wanted(found: Matrix) -> bool:
    """A matrix that brings launches of its own is about those, unless it names kernels of ours."""
    globs = [glob for block in found.blocks for glob in block.axes.get("kernel", ())]
    return not found.launches or any("." in glob and ":" not in glob for glob in globs)


def package_sources(found: Matrix, spec: str, package: Package) -> list[Source]:
    """A package's kernels with the launches that a matrix declares for it."""
    sources = []
    for name, listed in found.launches.items():
        if ":" in name:
            module, _, qualname = name.partition(":")
            operator, form = found.forms.get(name, (None, None))
            origin = {"module": module, "qualname": qualname}
            kernel = Kernel(name, spec, digest([package.digest, name]), origin, operator, form)
            mine = tuple(
                launch for launch in listed if fnmatchcase(spec, launch.get("package", "*"))
            )
            sources += [Source(kernel, mine)] if mine else []
    return sources


def _forms(sources: list[Source]) -> dict[tuple[str | None, str], tuple[str, str]]:
    kernels = [source.kernel for source in sources]
    return {(k.package, k.name): (k.operator, k.form) for k in kernels if k.operator and k.form}


class Resolver:
    """Toolchain specifications to names, each asked once; remembers the choices behind the names."""

    def __init__(self) -> None:
        self.choices: dict[str, Choice] = {}
        self.warnings: list[str] = []
        self._names: dict[str, tuple[str, ...]] = {}

    def __call__(self, spec: str) -> tuple[str, ...]:
        if spec not in self._names:
            resolution = toolchains.resolve([spec])
            self.warnings += resolution.warnings
            self.choices |= {choice.identity: choice for choice in resolution.choices}
            self._names[spec] = tuple(choice.identity for choice in resolution.choices)
        return self._names[spec]


def sharded(cells: list[Cell], shard: str | None) -> list[Cell]:
    """The part I of N (from 1), by key, so that every machine agrees without talking."""
    if shard is None:
        return cells
    match = _SHARD.fullmatch(shard)
    index, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard {shard}: I/N with 1 ≤ I ≤ N is wanted, for example 2/8")
    return [cell for cell in cells if int(cell.key[:8], 16) % count == index - 1]
