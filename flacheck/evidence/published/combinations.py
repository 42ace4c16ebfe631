"""Combinations of packages, releases and GPUs whose results the project publishes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

from flacheck import files
from flacheck.errors import UsageError
from flacheck.evidence.published.form import Configs, place_file
from flacheck.model.launch import FormError, check_plain
from flacheck.tables import targets

_Texts = Annotated[tuple[str, ...], Meta(min_length=1)]


class _Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry of the file: every version × release × GPU."""

    package: str | None = None
    matrix: str | None = None
    versions: tuple[str, ...] = ()
    triton: _Texts
    targets: _Texts
    configs: Configs = "usual"
    ship: bool = False

    def __post_init__(self) -> None:
        if (self.package is None) == (self.matrix is None):
            raise ValueError("an entry names either a package or a matrix")
        if self.package is not None and not self.versions:
            raise ValueError(f"{self.package}: name its versions")
        if self.matrix is not None and self.configs != "own":
            raise ValueError(
                f"{self.matrix}: a matrix lists its configurations itself: write configs: own"
            )


class _CombinationsFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    combinations: tuple[_Entry, ...]


@dataclass(frozen=True)
class Combination:
    """A package or matrix on one GPU under several releases; `is_shipped` comes with flacheck."""

    about: str
    configs: Configs
    toolchains: tuple[str, ...]
    target: str
    is_package: bool
    is_shipped: bool

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """Every (toolchain, target)."""
        return tuple((toolchain, self.target) for toolchain in self.toolchains)

    def file_of(self, toolchain: str) -> str:
        """Return the name of the file of a release: `fla-0.4.2/usual-triton-3.5.1-sm90.zst`."""
        return place_file(self.about, self.configs, toolchain, self.target)

    @property
    def name(self) -> str:
        """`liger-kernel==0.8.5 (usual) on sm90`."""
        return f"{self.about} ({self.configs}) on {self.target}"


def read_combinations(file: Path) -> list[Combination]:
    """Return the combinations in a YAML file, one for each package version, GPU and configs.

    Raises:
        UsageError: If the file is missing or malformed.
    """
    try:
        plain: Any = yaml.safe_load(files.read_text(file, files.MOST_YAML))
        check_plain(plain)
        content = msgspec.convert(plain, _CombinationsFile)
    except OSError as error:
        raise UsageError(
            f"{file}: cannot be read ({error.strerror}); give a YAML file of combinations, as "
            "results/combinations.yaml"
        ) from None
    except (UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError, FormError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{file}: not a file of combinations ({why})") from None
    if content.version != 1:
        raise UsageError(f"{file}: version {content.version}; this flacheck reads version 1")
    combinations = []
    for entry in content.combinations:
        for target in entry.targets:
            targets.find(target)
        toolchains = tuple(f"triton=={version}" for version in entry.triton)
        abouts = [f"{entry.package}=={version}" for version in entry.versions]
        if entry.matrix is not None:
            abouts = [entry.matrix]
        for about in abouts:
            for target in entry.targets:
                combinations.append(
                    Combination(
                        about,
                        entry.configs,
                        toolchains,
                        targets.find(target).name,
                        entry.package is not None,
                        entry.ship,
                    )
                )
    return combinations
