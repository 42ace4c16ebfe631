"""The share of the failures of all configurations that `--configs edges` finds, on recorded crosses.

Each table holds drawn kernels with every configuration of their launches and the signature of its
failure. The kernels whose names have an even checksum served to choose the traits; the figures are
those of the others, and of all.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flacheck.subjects.inputs.edges import Group, LaunchSettings, choose

TABLES = sorted(Path(__file__).with_name("crosses").glob("*.json"))


@dataclass(frozen=True)
class Kernel:
    """A kernel with its configurations, their failures, and the usual one."""

    name: str
    settings: list[LaunchSettings]
    signatures: list[str]
    usual: int

    @property
    def is_of_choice(self) -> bool:
        return zlib.crc32(self.name.encode()) % 2 == 0

    def failures(self, indices: Iterable[int]) -> set[str]:
        return {self.signatures[index] for index in indices} - {"", "?"}


def kernels() -> Iterator[Kernel]:
    for table in TABLES:
        for plain in json.loads(table.read_text(encoding="utf-8"))["kernels"]:
            yield read(plain)


def read(plain: dict[str, Any]) -> Kernel:
    settings, signatures = [], []
    for launch, constants, warps, stages, signature in plain["rows"]:
        options = {"num_warps": warps, "num_stages": stages}
        constants_by_name = dict(zip(plain["tuned"], constants))
        settings.append(LaunchSettings(plain["launches"][launch], options, constants_by_name))
        signatures.append(signature)
    return Kernel(plain["kernel"], settings, signatures, plain["usual"])


@dataclass(frozen=True)
class Figures:
    """Pairs of kernel and signature that the choices find, and compiles for each usual one."""

    own: int
    usual: int
    edges: int
    compiles: float


def figures(every: list[Kernel]) -> Figures:
    groups = [Group([each.settings[each.usual]], each.settings) for each in every]
    own = usual = edges = compiles = 0
    for each, indices in zip(every, choose(groups)):
        indices_compiled = {each.usual, *indices}
        own += len(each.failures(range(len(each.settings))))
        usual += len(each.failures([each.usual]))
        edges += len(each.failures(indices_compiled))
        compiles += len(indices_compiled)
    return Figures(own, usual, edges, compiles / len(every))


def test_the_kernels_that_served_to_choose() -> None:
    """The choices find every failure, in three times the usual compiles."""
    every = [kernel for kernel in kernels() if kernel.is_of_choice]
    assert figures(every) == Figures(own=8, usual=2, edges=8, compiles=3.0)


def test_the_other_kernels() -> None:
    """One failure in a single configuration of twelve is missed."""
    every = [kernel for kernel in kernels() if not kernel.is_of_choice]
    assert figures(every) == Figures(own=8, usual=2, edges=7, compiles=3.0)


def test_what_was_drawn() -> None:
    """Each drawn kernel has all its configurations."""
    sizes = [len(kernel.settings) for kernel in kernels()]
    assert (len(sizes), sum(sizes)) == (28, 435)
