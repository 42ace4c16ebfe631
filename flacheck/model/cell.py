"""Cells: the unit of work, caching, sharding and merging."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from flacheck.model.kernel import Kernel
from flacheck.model.launch import Launch, LaunchJson
from flacheck.model.values import Json, canonical, digest
from flacheck.model.wire import CellKey, JsonStruct, ToolchainName


@dataclass(frozen=True)
class Alternative:
    """Another configuration of a cell's launch: its tuned constants and options.

    `is_widened` marks a configuration outside the autotuner's own list.
    """

    constants: Mapping[str, Any]
    options: Mapping[str, Any]
    is_widened: bool = False


# A part of a cell that two cells may differ in and still be compared.
CellPart = Literal["package", "toolchain", "stage"]


class CellDocument(JsonStruct, frozen=True):
    """The fields of a cell in JSON; `how` is the way the worker loads the kernel."""

    key: CellKey
    kernel: str
    package: str | None
    how: Literal["corpus", "import", "stub", "cut", "unit"]
    toolchain: ToolchainName
    target: str
    dtype: str | None
    shape: Mapping[str, int]
    launch: LaunchJson | None
    options: Mapping[str, Any]
    widened: bool


@dataclass(frozen=True)
class Cell:
    """launch × options × target × toolchain.

    `toolchain` is a compiler at an exact version (`triton==3.2.0`); `stage` is `compile` or
    `autotune`; `until` names the last stage to run, None for all. `dtype`, `shape` and `configs`
    (the autotuner's list from which this launch was filled) only describe the launch and are not
    part of the key. The `alternatives` are not part of the key either: if the autotuner skips this
    configuration, they run in order until one compiles.
    """

    kernel: Kernel
    toolchain: str
    target: str
    launch: Launch | None
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    shape: Mapping[str, int] = field(default_factory=dict)
    is_widened: bool = False
    stage: str = "compile"
    until: str | None = None
    configs: tuple[Mapping[str, Any], ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def key(self) -> str:
        """Content hash of everything that can change the outcome; does not import the kernel."""
        return digest(
            {
                "kernel": [self.kernel.name, self.kernel.digest],
                "launch": self.launch.to_json() if self.launch else None,
                "options": dict(self.options),
                "target": self.target,
                "toolchain": self.toolchain,
                "stage": self.stage,
                "until": self.until,
            }
        )

    def identity(self, without: Collection[CellPart], ignored_options: Collection[str] = ()) -> str:
        """Return a key that equal cells share when these parts and options are left out.

        Unlike `key` it ignores the kernel's source, so a cell keeps it when the kernel is edited.
        """
        options = {}
        for name, value in self.options.items():
            if name not in ignored_options:
                options[name] = value
        parts = {
            "kernel": self.kernel.name,
            "package": self.kernel.package,
            "toolchain": self.toolchain,
            "target": self.target,
            "launch": self.launch.to_json() if self.launch else None,
            "options": options,
            "stage": self.stage,
        }
        for part in without:
            del parts[part]
        return canonical(parts)

    def fields_of_document(self) -> Json:
        """Return the fields of `CellDocument`."""
        return {
            "key": self.key,
            "kernel": self.kernel.name,
            "package": self.kernel.package,
            "how": self.kernel.origin.how,
            "toolchain": self.toolchain,
            "target": self.target,
            "dtype": self.dtype,
            "shape": dict(self.shape),
            "launch": self.launch.to_json() if self.launch else None,
            "options": dict(self.options),
            "widened": self.is_widened,
        }

    def others(self) -> Iterator[Cell]:
        """Yield the cells of the alternatives, which replace this cell in their order."""
        for alternative in self.alternatives:
            assert self.launch is not None
            yield replace(
                self,
                launch=self.launch.with_constants(alternative.constants),
                options=alternative.options,
                is_widened=alternative.is_widened,
                alternatives=(),
            )

    def with_key(self, key: str) -> Cell:
        """Set the key under which the cell is stored and return the cell.

        A stored record keeps its key even if the source from which it was computed is lost.
        """
        self.__dict__["key"] = key
        return self
