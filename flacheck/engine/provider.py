"""Provider of compilers: each toolchain is installed when its first cell is due."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flacheck import toolchains
from flacheck.engine import policies
from flacheck.engine.package_builds import provide_package
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import FlacheckError, ToolchainError
from flacheck.model import Attempt, Cell, Json, Verdict
from flacheck.source.packages.package import Package
from flacheck.tables import find_shipped_folder
from flacheck.toolchains import intact, wheels
from flacheck.toolchains.base import Choice, Toolchain
from flacheck.toolchains.intact import FileStates


@dataclass(frozen=True)
class Unavailable:
    """The reason why a toolchain compiles nothing, with a verdict for each of its cells."""

    verdict: Verdict
    reason: str
    code: str | None = None


@dataclass(frozen=True)
class WorkerRecipe:
    """The parts of a kind of worker by name, from which another machine makes the same kind.

    Attributes:
        choice: The compiler.
        package: The package of the kernels; None for flacheck's own.
        with_torch: True if the worker imports torch.
        memory_mb: Megabytes of address space for the worker.
        trust: True if the sources may use more than Triton's language.
    """

    choice: Choice
    package: Package | None
    with_torch: bool
    memory_mb: int
    trust: bool

    def kind_with(self, toolchain: Toolchain) -> WorkerKind:
        """Return the kind of worker with an installed compiler."""
        kind = worker_kind(toolchain, self.package, self.with_torch, self.memory_mb, self.trust)
        return replace(kind, recipe=self)


class Provider:
    """The compilers and packages of a run; a compiler is installed when its first cell is due.

    `attempts` holds, by key, the cells that a capture has tried before. `memory_mb` limits each
    worker; a worker whose compiles fill it gets up to `most_memory_mb` if it fails for that.
    Without `trust`, sources may use Triton's language only.
    """

    def __init__(
        self,
        choices: Mapping[str, Choice],
        packages: Mapping[str, Package],
        attempts: Mapping[str, Attempt],
        memory_mb: int,
        trust: bool = False,
        most_memory_mb: int = 0,
    ) -> None:
        self._choices = choices
        self._packages = packages
        self._attempts = attempts
        self.memory_mb = memory_mb
        self.most_memory_mb = max(memory_mb, most_memory_mb)
        self._trust = trust
        self._kinds: dict[tuple[str, str | None, bool], WorkerKind | Unavailable] = {}
        self._toolchains: dict[str, Toolchain | Unavailable] = {}
        # The files of each used folder, as they were before the first compile.
        self._files: dict[str, FileStates] = {}

    def refusal(self, cell: Cell) -> str | None:
        """Return why the cell's toolchain does not support its target, None if it does."""
        return self._choices[cell.toolchain].skip_reason(cell.target)

    def attempt(self, cell: Cell) -> Attempt | None:
        """Return the attempt of a capture that has tried the cell before, else None."""
        return self._attempts.get(cell.key)

    def worker_kind(self, cell: Cell) -> WorkerKind | Unavailable:
        """Return the kind of worker that compiles the cell; install its toolchain first."""
        toolchain = self._toolchain(cell.toolchain)
        if isinstance(toolchain, Unavailable):
            return toolchain
        lacking = toolchain.missing_tool(cell.target)
        if lacking:
            return Unavailable(Verdict.UNKNOWN, lacking)
        identity = (cell.toolchain, cell.kernel.package, cell.kernel.is_imported)
        if identity not in self._kinds:
            package = self._packages.get(cell.kernel.package or "")
            for folder in _folders(toolchain, package):
                if folder not in self._files:
                    self._files[folder] = intact.states(folder)
            with_torch = cell.kernel.is_imported
            recipe = WorkerRecipe(
                self._choices[cell.toolchain], package, with_torch, self.memory_mb, self._trust
            )
            self._kinds[identity] = recipe.kind_with(toolchain)
        return self._kinds[identity]

    def larger_kind(self, kind: WorkerKind) -> WorkerKind | None:
        """Return a kind of worker with the most memory; None if this kind gets no more."""
        if not kind.needs_mb or kind.config["memory_mb"] >= self.most_memory_mb:
            return None
        recipe = kind.recipe
        if recipe is not None:
            recipe = replace(recipe, memory_mb=self.most_memory_mb)
        config = {**kind.config, "memory_mb": self.most_memory_mb}
        return replace(kind, config=config, needs_mb=self.most_memory_mb, recipe=recipe)

    def loss(self, cell: Cell) -> str | None:
        """Return a reason if a file of the cell's compiler or package has changed, else None."""
        toolchain = self._toolchains.get(cell.toolchain)
        if not isinstance(toolchain, Toolchain):
            return None
        package = self._packages.get(cell.kernel.package or "")
        for folder in _folders(toolchain, package):
            file = intact.first_change(self._files.get(folder, {}))
            if file is not None:
                return (
                    f"{file} was changed or removed while {cell.toolchain} was at work; scan again"
                )
        return None

    def _toolchain(self, name: str) -> Toolchain | Unavailable:
        if name not in self._toolchains:
            self._toolchains[name] = _provide(self._choices[name])
        return self._toolchains[name]


def provide_kind(recipe: WorkerRecipe) -> WorkerKind | Unavailable:
    """Return a kind of worker on this machine; install its compiler and package first.

    A package in a folder that both machines share is used where it is.
    """
    toolchain = _provide(recipe.choice)
    if isinstance(toolchain, Unavailable):
        return toolchain
    package = recipe.package
    if package is not None and not Path(package.path).is_dir():
        try:
            here = provide_package(package.identity)
        except FlacheckError as error:
            return Unavailable(Verdict.UNKNOWN, str(error))
        if here.digest != package.digest:
            return Unavailable(
                Verdict.UNKNOWN, f"the files of {package.identity} differ on this machine"
            )
        recipe = replace(recipe, package=here)
    return recipe.kind_with(toolchain)


def _provide(choice: Choice) -> Toolchain | Unavailable:
    if choice.reason:
        return Unavailable(Verdict.UNKNOWN, choice.reason, "FC903")
    try:
        return toolchains.provide(choice)
    except wheels.Offline as error:
        return Unavailable(Verdict.UNKNOWN, error.reason, "FC903")
    except ToolchainError as error:
        return Unavailable(Verdict.UNKNOWN, str(error), "FC903")


def _folders(toolchain: Toolchain, package: Package | None) -> list[str]:
    """Return the folders on which a failure of a cell may depend."""
    folders = list(toolchain.paths)
    if package is not None:
        folders.append(package.path)
    return folders


def worker_kind(
    toolchain: Toolchain,
    package: Package | None,
    with_torch: bool,
    memory_mb: int,
    trust: bool = False,
) -> WorkerKind:
    """Return the kind of worker for a package's kernels, or flacheck's own without one.

    The worker imports torch if the kernels are imported `with_torch`. Without `trust`, its sources
    may use Triton's language only.
    """
    config: Json = {**toolchain.worker_config(), "memory_mb": memory_mb, "trust": trust}
    if package is not None:
        modules: Json = {"path": package.path, "modules": list(package.modules)}
        if package.includes:
            modules["includes"] = list(package.includes)
            modules["headers"] = policies.header_folders(package.includes, package.path)
        config["packages"] = {package.identity: modules}
        name = f"{toolchain.identity} {package.identity}"
    else:
        config["corpus"] = str(find_shipped_folder("kernels"))
        name = f"{toolchain.identity} corpus"
    if with_torch:
        name = f"{name} beside torch"
        config["torch"] = torch_folder()
        config["package_card"] = "fake_cuda.imports"
    needs_mb = memory_mb if toolchain.fills_memory else 0
    return WorkerKind(name, config, dict(toolchain.environment), needs_mb=needs_mb)


def torch_folder() -> str | None:
    """Return the folder of the installed torch, None without one; nothing is imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent.parent)
