"""Packages whose kernels are compiled: installed beside no torch, no triton and no CUDA, in a
folder of their own."""

import functools
import importlib.metadata
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.model import digest
from flacheck.packages import checkouts, installing
from flacheck.source.modules import importable
from flacheck.toolchains import cache, filling, identity, index, wheels
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)

# Folders of which it was said in this process what is missing there.
_TOLD: set[Path] = set()


@dataclass(frozen=True)
class Package:
    """A package at an exact version: `path` is its folder for imports, `digest` a hash of its own
    files and of the packages it pins exactly; `contains` maps the distributions in the folder to
    their versions. `includes` are folders of headers elsewhere that its C++ sources want."""

    name: str
    version: str
    path: str
    digest: str
    contains: dict[str, str]
    includes: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """What a record says: `flash-linear-attention==0.2.2`."""
        return f"{self.name}=={self.version}"

    @property
    def modules(self) -> tuple[str, ...]:
        """The top-level packages and modules that the distribution, and those it pins exactly,
        bring, without their tests: `fla`. Packages come first."""
        tops = {name.partition(".")[0]: "." in name for name in self.own_modules}
        tops |= {name.partition(".")[0]: True for name in self.own_modules if "." in name}
        return tuple(sorted(tops, key=lambda top: (not tops[top], top)))

    @functools.cached_property
    def own_modules(self) -> tuple[str, ...]:
        """Every module that they bring, each package before its modules: no dependency's, a pinned
        one's only where it may hold kernels, none of their tests, and nothing that runs when it is
        imported, as `__main__` does."""
        files: set[str] = set()
        for owner in _own(Path(self.path), self.name):
            theirs = _files(owner)
            # A package may pin the exact versions of libraries as well.
            asked_for = canonicalize_name(owner.name) == canonicalize_name(self.name)
            if asked_for or any(_names_triton(Path(self.path, name)) for name in theirs):
                files.update(theirs)
        return tuple(sorted(filter(None, map(importable, files))))

    def requires(self, names: Sequence[str]) -> list[tuple[str, Requirement]]:
        """What the distribution, and those it pins exactly, require of some others: the owner, as
        `fla-core 0.4.2`, and the requirement. What holds for an extra or elsewhere is left out."""
        required = []
        for owner in _own(Path(self.path), self.name):
            for wanted in map(Requirement, owner.requires or []):
                holds = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
                if canonicalize_name(wanted.name) in names and holds:
                    required.append((f"{owner.name} {owner.version}", wanted))
        return required


def provide_package(spec: str) -> Package:
    """The package `NAME==VERSION`, or the one whose checkout lies in a folder, installed when it is
    not there.

    A checkout's version ends in a hash of its files. Raises UsageError for a package that does not
    exist, ToolchainError when it cannot be installed.
    """
    if checkouts.is_path(spec):
        checkout = checkouts.folder(spec)
        # Every edit makes another state, which is installed anew with what it depends on.
        state = checkouts.digest(checkout)
        folder = _folder(f"checkout-{state}")
        return _package(filling.fill(folder, lambda into: _build(checkout, state, into)))
    name, version = parse(spec)
    folder = _folder(f"{name}-{version}")
    try:
        return _package(filling.fill(folder, lambda into: _download(name, version, into)))
    except wheels.NotFound as error:
        raise UsageError(_unknown(name, version, error)) from error


def installed_package(spec: str) -> Package | None:
    """The package `NAME==VERSION` if an earlier command installed it, else None."""
    if checkouts.is_path(spec):
        return None
    name, version = parse(spec)
    shelf = cache.read_shelf(_folder(f"{name}-{version}"))
    if shelf is None:
        return None
    return _package(shelf)


def _folder(name: str) -> Path:
    return cache.root() / "packages" / f"{name}-{cache.python_tag()}"


def _package(shelf: cache.Shelf) -> Package:
    said = shelf.manifest
    remark = installing.remark(said)
    if remark and shelf.path not in _TOLD:
        _TOLD.add(shelf.path)
        _LOG.warning(remark)
    path = str(shelf.path)
    return Package(said["name"], said["version"], path, said["digest"], said["contains"])


def parse(spec: str) -> tuple[str, str]:
    """The normalised name and the version in `NAME==VERSION`."""
    try:
        wanted = Requirement(spec)
        exact = re.fullmatch(r"={2,3}\s*([^*,]+)", str(wanted.specifier))
        # An extra or a marker would be another question than the package's own kernels.
        if exact and not (wanted.extras or wanted.marker):
            return canonicalize_name(wanted.name), str(Version(exact[1]))
    except (InvalidRequirement, InvalidVersion):
        pass
    raise UsageError(
        f"{spec!r} names no package: give NAME==VERSION, as flash-linear-attention==0.2.2"
    )


def _unknown(name: str, version: str, error: ToolchainError) -> str:
    """Return why the package cannot be found; raise Offline if an index did not answer."""
    try:
        there = index.available(name, binary_only=False)
    except wheels.NotFound:
        return f"there is no package {name} in the package index"
    except wheels.Offline:
        # The package may be in the index that did not answer.
        raise
    except ToolchainError:
        return str(error)
    if Version(version) in there:
        return str(error)
    near = ", ".join(map(str, index.near(Version(version), there)))
    return f"there is no {name} {version}; the nearest are {near}"


def _download(name: str, version: str, into: Path) -> dict[str, Any]:
    with temporary_folder() as aside:
        done = installing.from_index(name, version, into, Path(aside))
    return {**done, **_facts(into, name, version)}


def _build(checkout: Path, state: str, into: Path) -> dict[str, Any]:
    # As it stands where no build is tried: a copy of a large history takes its time.
    if checkouts.cannot_build(checkout):
        done = installing.from_sources(checkout, checkout.name, into)
    else:
        with checkouts.temporary_copy(checkout) as copy:
            done = installing.from_sources(copy, checkout.name, into)
    built = checkouts.find_built(into)
    version = Version(built.version)
    local = ".".join(filter(None, [version.local, f"h{state[:8]}"]))
    return {**done, **_facts(into, canonicalize_name(built.name), f"{version.public}+{local}")}


def _facts(into: Path, name: str, version: str) -> dict[str, Any]:
    own = digest({d.name: _files(d) for d in _own(into, name)})
    return {"name": name, "version": version, "digest": own, "contains": wheels.contents(into)}


def _own(folder: Path, name: str) -> Iterator[importlib.metadata.Distribution]:
    """The distribution asked for and those that it pins with `==`, as flash-linear-attention pins
    fla-core."""
    distributions = importlib.metadata.distributions(path=[str(folder)])
    left = {str(canonicalize_name(each.name)): each for each in distributions}
    waiting = [name]
    while waiting:
        distribution = left.pop(waiting.pop(), None)
        if distribution is None:
            continue
        yield distribution
        for wanted in map(Requirement, distribution.requires or []):
            # A marker is for an extra or for another system.
            if str(wanted.specifier).startswith("==") and not wanted.marker:
                waiting.append(canonicalize_name(wanted.name))


def _names_triton(file: Path) -> bool:
    """Whether a module may hold kernels."""
    if file.suffix != ".py":
        return False
    try:
        return b"triton" in file.read_bytes()
    except OSError:
        return False


def _files(distribution: importlib.metadata.Distribution) -> dict[str, str]:
    """What the distribution's wheel held: no bytecode, no metadata, no scripts, which installers
    write."""
    hashes = identity.record_hashes(distribution.read_text("RECORD") or "")
    written = re.compile(r"^\.\.|\.dist-info/|__pycache__/")
    return {name: value for name, value in hashes.items() if not written.search(name)}
