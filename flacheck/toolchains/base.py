"""What a toolchain is to the rest of flacheck, and what a family of toolchains must offer.

A family (Triton, nvcc) is one file in this folder with an object that follows
`Family`; the worker that drives its compiler lives in `guest/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flacheck.tables.targets import TARGETS


@dataclass(frozen=True)
class Choice:
    """A toolchain that was asked for, maybe not there yet.

    `identity` is what goes into a cell's key. `origin` is "cache" (a release in the user's cache),
    "installed" (in this Python's environment) or "path"; `location` the folder or wheel file of the
    last two. `reason` says why it cannot be had at all, `unsupported` maps the targets it does not know
    to why.
    """

    family: str
    version: str
    identity: str
    origin: str
    location: str | None = None
    reason: str | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)

    def skip_reason(self, target: str) -> str | None:
        """None for a target it knows, else the reason for `skipped`."""
        return self.unsupported.get(target)


@dataclass(frozen=True)
class Resolution:
    """The choices that specifications lead to, in their order, and what to tell the user about the
    rest."""

    choices: tuple[Choice, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Toolchain:
    """A compiler at an exact version, ready to run.

    `paths` are the folders its worker puts on `sys.path`, `worker` is the guest's module,
    `environment` what its process needs beside the allow-list, `config` what its worker is told;
    `missing` maps a target to the tool that it wants and this machine lacks, the reason for
    `unknown`. `fills_memory` says that one compile may take all the memory that a worker is
    allowed, so that only so many run as fit.
    """

    name: str
    version: str
    identity: str
    origin: str
    paths: tuple[str, ...]
    worker: str
    stages: tuple[str, ...] = ()
    ld_lld: str | None = None
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
        """The names of the targets it knows."""
        return tuple(name for name in TARGETS if name not in self.unsupported)

    def skip_reason(self, target: str) -> str | None:
        """None for a target it knows, else the reason for `skipped`."""
        return self.unsupported.get(target)

    def missing_tool(self, target: str) -> str | None:
        """None when the target can be compiled here, else what is missing: the reason for
        `unknown`."""
        return self.missing.get(target)

    def worker_config(self) -> dict[str, Any]:
        """What the guest is told of the compiler; its process also gets `environment`."""
        own = {"path": list(self.paths), "identity": self.identity, "worker": self.worker}
        return {**own, **self.config}


class Family(Protocol):
    """One compiler in all its versions.

    `language` is what its kernels are written in, `stages` are the names of its stages in the order
    in which they run.
    """

    @property
    def name(self) -> str: ...

    @property
    def language(self) -> str: ...

    @property
    def stages(self) -> tuple[str, ...]: ...

    def target(self, name: str) -> str:
        """How its cells name a target: Triton takes `sm90a` for sm90, nvcc tells them apart."""
        ...

    def options(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options of a cell, with those that decide its outcome and were not given."""
        ...

    def versions(self) -> Resolution:
        """Every release that can be had here, oldest first."""
        ...

    def resolve(self, spec: str) -> Resolution:
        """The releases that a specification (an exact version, a PEP 440 specifier) asks for."""
        ...

    def find_installed(self) -> Choice:
        """The one in this Python's environment, or a ToolchainError."""
        ...

    def holds(self, path: str) -> bool:
        """Whether one lies there."""
        ...

    def at(self, path: str) -> Choice:
        """The one in a wheel file, an unpacked folder or a source build."""
        ...

    def provide(self, choice: Choice) -> Toolchain:
        """Make the choice ready to run, installing it when it is not there."""
        ...
