"""The interface between toolchains and the rest of flacheck.

A family (Triton, nvcc) is one file in this folder with an object that follows `Family`; the worker
that runs its compiler lives in `guest/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flacheck.errors import ToolchainError
from flacheck.tables.targets import TARGETS


class NotInstalled(ToolchainError):
    """A compiler that this Python's environment lacks."""


@dataclass(frozen=True)
class Choice:
    """A requested toolchain, possibly not installed yet.

    `identity` goes into a cell's key. `origin` is "cache" (a release in the user's cache),
    "installed" (in this Python's environment) or "path"; `location` is the folder or wheel file of
    the last two. `reason` explains why it cannot be installed at all, `unsupported` maps each
    unsupported target to the reason.
    """

    family: str
    version: str
    identity: str
    origin: str
    location: str | None = None
    reason: str | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)

    def skip_reason(self, target: str) -> str | None:
        """Return None for a supported target, else the reason for `skipped`."""
        return self.unsupported.get(target)

    def by_name(self) -> "Toolchain":
        """Return the toolchain without its folders: enough where it need not run."""
        return Toolchain(self.family, self.version, self.identity, self.origin, (), "")


@dataclass(frozen=True)
class Resolution:
    """The choices for specifications, in their order, with warnings about the rest."""

    choices: tuple[Choice, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Toolchain:
    """A compiler at an exact version, ready to run.

    `paths` are the folders that its worker puts on `sys.path`, `worker` is the guest's module,
    `environment` the variables of its process beside the allow-list, `config` the worker's
    configuration; `missing` maps a target to a tool that this machine lacks, the reason for
    `unknown`. If `fills_memory`, one compile may take all the memory that a worker is allowed, so
    only as many run as fit.
    """

    name: str
    version: str
    identity: str
    origin: str
    paths: tuple[str, ...]
    worker: str
    stages: tuple[str, ...] = ()
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)
    missing: Mapping[str, str] = field(default_factory=dict, hash=False)
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    config: Mapping[str, Any] = field(default_factory=dict, hash=False)
    fills_memory: bool = False

    @property
    def path(self) -> str:
        """The folder that holds the compiler's package."""
        return self.paths[0]

    def targets(self) -> tuple[str, ...]:
        """Return the names of the supported targets."""
        return tuple(name for name in TARGETS if name not in self.unsupported)

    def skip_reason(self, target: str) -> str | None:
        """Return None for a supported target, else the reason for `skipped`."""
        return self.unsupported.get(target)

    def missing_tool(self, target: str) -> str | None:
        """Return None if the target compiles here, else the reason for `unknown`."""
        return self.missing.get(target)

    def worker_config(self) -> dict[str, Any]:
        """Return the guest's configuration of the compiler, without the `environment`."""
        own = {"path": list(self.paths), "identity": self.identity, "worker": self.worker}
        return {**own, **self.config}


class Family(Protocol):
    """One compiler in all its versions.

    `language` is the language of its kernels, `stages` are the names of its stages in the order in
    which they run.
    """

    @property
    def name(self) -> str: ...

    @property
    def language(self) -> str: ...

    @property
    def stages(self) -> tuple[str, ...]: ...

    def target(self, name: str) -> str:
        """Return a target's name in its cells: nvcc distinguishes `sm90a` from sm90."""
        ...

    def options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a cell's options with defaults for those that decide its outcome."""
        ...

    def versions(self) -> Resolution:
        """Return every release that can be installed here, oldest first."""
        ...

    def resolve(self, spec: str) -> Resolution:
        """Return the releases for an exact version or a PEP 440 specifier."""
        ...

    def find_installed(self) -> Choice:
        """Return the compiler in this Python's environment.

        Raises ToolchainError if it is missing.
        """
        ...

    def holds(self, path: str) -> bool:
        """Return True if the path holds a compiler of this family."""
        ...

    def at(self, path: str) -> Choice:
        """Return the compiler in a wheel file, an unpacked folder or a source build."""
        ...

    def provide(self, choice: Choice) -> Toolchain:
        """Return the choice ready to run, installed if necessary."""
        ...
