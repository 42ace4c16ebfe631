"""Who provides compilers: each toolchain is installed once, when its first cell is due."""

import importlib.util
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from flacheck import toolchains
from flacheck.engine import policies
from flacheck.engine.sandbox import WorkerKind
from flacheck.errors import ToolchainError
from flacheck.model import Attempt, Cell, Json, Verdict
from flacheck.packages.package import Package
from flacheck.source.reach import first_length, reached
from flacheck.tables import find_shipped_folder
from flacheck.toolchains import intact
from flacheck.toolchains.base import Choice, Toolchain
from flacheck.toolchains.intact import FileStates

# Names of layers that reach a kernel: enough to recognise one's own model by.
_REACHES = 6


@dataclass(frozen=True)
class Untried:
    """Why a toolchain compiles nothing: a verdict for each of its cells."""

    verdict: Verdict
    reason: str
    code: str | None = None


class Provider:
    """The compilers and packages of a run, each compiler installed when its first cell is due.

    `attempts` holds, by key, the cells that a capture has tried already. `memory_mb` limits each
    worker; without `trust` its sources are held to Triton's language.
    """

    def __init__(
        self,
        choices: Mapping[str, Choice],
        packages: Mapping[str, Package],
        attempts: Mapping[str, Attempt],
        memory_mb: int,
        trust: bool = False,
    ) -> None:
        self._choices = choices
        self._packages = packages
        self._attempts = attempts
        self.memory_mb = memory_mb
        self._trust = trust
        self._kinds: dict[tuple[str, str | None, bool], WorkerKind | Untried] = {}
        self._toolchains: dict[str, Toolchain | Untried] = {}
        # The files of each folder that is in use, as they were before its first compile.
        self._files: dict[str, FileStates] = {}

    def refusal(self, cell: Cell) -> str | None:
        """Why the cell's toolchain does not know its target, None when it does."""
        return self._choices[cell.toolchain].skip_reason(cell.target)

    def attempt(self, cell: Cell) -> Attempt | None:
        """What happened to the cell where a capture has tried it already."""
        return self._attempts.get(cell.key)

    def worker_kind(self, cell: Cell) -> WorkerKind | Untried:
        """The kind of worker that compiles the cell; installs its toolchain."""
        toolchain = self._toolchain(cell.toolchain)
        if isinstance(toolchain, Untried):
            return toolchain
        lacking = toolchain.missing_tool(cell.target)
        if lacking:
            return Untried(Verdict.UNKNOWN, lacking)
        identity = (cell.toolchain, cell.kernel.package, cell.kernel.is_imported)
        if identity not in self._kinds:
            package = self._packages.get(cell.kernel.package or "")
            for folder in _folders(toolchain, package):
                if folder not in self._files:
                    self._files[folder] = intact.states(folder)
            imported = cell.kernel.is_imported
            self._kinds[identity] = worker_kind(
                toolchain, package, imported, self.memory_mb, self._trust
            )
        return self._kinds[identity]

    def loss(self, cell: Cell) -> str | None:
        """Return which file of the cell's compiler or package was changed or removed since it was
        provided, as a reason; None where all are there."""
        toolchain = self._toolchains.get(cell.toolchain)
        if not isinstance(toolchain, Toolchain):
            return None
        for folder in _folders(toolchain, self._packages.get(cell.kernel.package or "")):
            file = intact.first_change(self._files.get(folder, {}))
            if file is not None:
                return (
                    f"{file} was changed or removed while {cell.toolchain} was at work; scan again"
                )
        return None

    def facts(self, cell: Cell) -> Json:
        """From which sequence length the package's layers reach the cell's kernel, read off its
        sources."""
        package = self._packages.get(cell.kernel.package or "")
        if package is None:
            return {}
        reaches = reached(package.path, cell.kernel.name)
        named = [asdict(entry) for entry in reaches if entry.plain][:_REACHES]
        return {"first_length": first_length(reaches), "reached_by": named}

    def _toolchain(self, name: str) -> Toolchain | Untried:
        if name not in self._toolchains:
            self._toolchains[name] = self._provided(self._choices[name])
        return self._toolchains[name]

    def _provided(self, choice: Choice) -> Toolchain | Untried:
        if choice.reason:
            return Untried(Verdict.UNKNOWN, choice.reason, "FC903")
        try:
            return toolchains.provide(choice)
        except ToolchainError as error:
            return Untried(Verdict.UNKNOWN, str(error), "FC903")


def _folders(toolchain: Toolchain, package: Package | None) -> list[str]:
    """The folders that a failure of a cell may depend on."""
    folders = list(toolchain.paths)
    if package is not None:
        folders.append(package.path)
    return folders


def worker_kind(
    toolchain: Toolchain,
    package: Package | None,
    imported: bool,
    memory_mb: int,
    trust: bool = False,
) -> WorkerKind:
    """A worker with a package's kernels or, without one, with flacheck's own; beside torch where
    they are `imported`. Without `trust` it holds the sources it is sent to Triton's language."""
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
    if imported:
        name = f"{name} beside torch"
        config["torch"] = torch_folder()
        config["package_card"] = "fake_cuda.imports"
    needs_mb = memory_mb if toolchain.fills_memory else 0
    return WorkerKind(name, config, dict(toolchain.environment), needs_mb=needs_mb)


def torch_folder() -> str | None:
    """Where the torch beside flacheck lies, None where there is none; nothing is imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent.parent)
