"""The fake toolchain as a family of releases: what resolves and provides them, without an index or
a download.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import SpecifierSet

from flacheck.engine import policies
from flacheck.tables import targets
from flacheck.toolchains.base import Choice, Resolution, Toolchain
from tests import fake

VERSIONS = tuple(f"{n}.0" for n in range(1, 10))


@dataclass(frozen=True)
class FakeToolchain(Toolchain):
    table: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def worker_config(self) -> dict[str, Any]:
        return {
            "path": [],
            "identity": self.identity,
            "worker_file": fake.WORKER,
            "table": dict(self.table),
            "confinement": policies.OWN,
        }


@dataclass(frozen=True)
class FakeFamily:
    """Releases 1.0 to 9.0. `wheelless` ones have no wheel, `refused` maps a version to its
    unsupported targets, and `provided` collects the versions that were provided."""

    table: Mapping[str, Any]
    wheelless: tuple[str, ...] = ()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provided: list[str] = field(default_factory=list)
    name: str = "fake"
    # It stands in for Triton.
    language: str = "triton"
    stages: tuple[str, ...] = ("parse", "lower", "late")

    def target(self, name: str) -> str:
        return targets.find(name).name

    def options(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return values

    def holds(self, path: str) -> bool:
        return False

    def versions(self) -> Resolution:
        return Resolution(tuple(self._choice(version) for version in VERSIONS))

    def resolve(self, spec: str) -> Resolution:
        specifiers = SpecifierSet(spec if spec[0] in "<>=!~" else f"=={spec}")
        return Resolution(
            tuple(self._choice(version) for version in VERSIONS if version in specifiers)
        )

    def find_installed(self) -> Choice:
        return self._choice(VERSIONS[-1])

    def at(self, path: str) -> Choice:
        raise NotImplementedError

    def _choice(self, version: str) -> Choice:
        reason = "no wheel for this Python" if version in self.wheelless else None
        refused = {
            target: f"fake {version} does not support {target}"
            for target in self.refused.get(version, ())
        }
        return Choice("fake", version, f"fake=={version}", "cache", None, reason, refused)

    def provide(self, choice: Choice) -> Toolchain:
        self.provided.append(choice.version)
        return FakeToolchain(
            "fake", choice.version, choice.identity, "cache", ("/fake",), "", table=self.table
        )
