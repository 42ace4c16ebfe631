"""Packages whose kernels are compiled, each in its own folder without torch, triton and CUDA."""

import contextlib
import functools
import importlib.metadata
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck import files
from flacheck.errors import ToolchainError, UsageError
from flacheck.model import digest
from flacheck.source.modules import file_of, importable
from flacheck.source.packages import checkouts, installing
from flacheck.source.packages.installing import BuildWheel
from flacheck.toolchains import cache, filling, identity, index, wheels
from flacheck.toolchains.scratch import temporary_folder

_LOG = logging.getLogger(__name__)

# The specifier of one version.
_EXACT = re.compile(r"={2,3}\s*([^*,]+)")
# Releases that an error names.
_MOST_NAMED = 4
# Folders whose missing parts this process has already reported.
_REPORTED_FOLDERS: set[Path] = set()


@dataclass(frozen=True)
class Package:
    """A package at an exact version.

    `path` is its folder for imports, `digest` a hash of its own files and of the packages that it
    pins exactly. `contains` maps the distributions in the folder to their versions. `includes` are
    folders of headers for its C++ sources.
    """

    name: str
    version: str
    path: str
    digest: str
    contains: dict[str, str]
    includes: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """The package's name in records: `flash-linear-attention==0.2.2`."""
        return f"{self.name}=={self.version}"

    @property
    def modules(self) -> tuple[str, ...]:
        """The top-level packages and modules without tests: `fla`; packages come first.

        They are those of the distribution, and of the distributions that it pins exactly.
        """
        is_package: dict[str, bool] = {}
        for name in self.own_modules:
            top, dot, _ = name.partition(".")
            is_package[top] = bool(dot) or is_package.get(top, False)
        return tuple(sorted(is_package, key=lambda top: (not is_package[top], top)))

    @functools.cached_property
    def own_modules(self) -> tuple[str, ...]:
        """Every own module, each package before its modules.

        Included are modules of exactly pinned distributions that may contain kernels. Excluded are
        other dependencies, tests, and modules that run on import, such as `__main__`.
        """
        files: set[str] = set()
        for owner in _own(Path(self.path), self.name):
            owner_files = _files(owner)
            # A package may pin the exact versions of libraries as well.
            is_own = canonicalize_name(owner.name) == canonicalize_name(self.name)
            if is_own or any(_names_triton(Path(self.path, name)) for name in owner_files):
                files.update(owner_files)
        return tuple(sorted(filter(None, map(importable, files))))

    @functools.cached_property
    def may_contain_kernels(self) -> bool:
        """Return False if no Python file of the package or of its requirements names Triton."""
        # The package's own files come first: most packages are answered by one of them.
        own_files = [file for name in self.own_modules if (file := file_of(Path(self.path), name))]
        return any(map(_names_triton, chain(own_files, Path(self.path).rglob("*.py"))))

    def requires(self, names: Sequence[str]) -> list[tuple[str, Requirement]]:
        """Return the requirements on some packages, each with its owner, as `fla-core 0.4.2`.

        Owners are the distribution, and those that it pins exactly. Requirements of an extra or of
        another system are left out.
        """
        requirements = []
        for owner in _own(Path(self.path), self.name):
            for requirement in map(Requirement, owner.requires or []):
                marker = requirement.marker
                applies = marker is None or marker.evaluate({"extra": ""})
                if canonicalize_name(requirement.name) in names and applies:
                    requirements.append((f"{owner.name} {owner.version}", requirement))
        return requirements


def provide_package(spec: str, build: BuildWheel) -> Package:
    """Return the package `NAME==VERSION`, or that of a checkout's folder; install it if necessary.

    `build` builds the wheels of sources. A checkout's version ends in a hash of its files. Raises
    UsageError for a package that does not exist, ToolchainError if it cannot be installed.
    """
    if checkouts.is_path(spec):
        checkout = checkouts.folder(spec)
        # After every edit the checkout is installed again, with its dependencies.
        state = checkouts.digest(checkout)
        folder = _folder(f"checkout-{state}")
        return _package(filling.fill(folder, lambda into: _build(checkout, state, into, build)))
    name, version = parse(spec)
    folder = _folder(f"{name}-{version}")
    try:
        return _package(filling.fill(folder, lambda into: _download(name, version, into, build)))
    except wheels.NotFound as error:
        raise UsageError(_unknown(name, version, error)) from error


def has_to_be_built(spec: str) -> bool:
    """Return True for a checkout's folder whose build would run now."""
    if not checkouts.is_path(spec):
        return False
    checkout = checkouts.folder(spec)
    if checkouts.cannot_build(checkout) is not None:
        return False
    return cache.read_shelf(_folder(f"checkout-{checkouts.digest(checkout)}")) is None


def installed_package(spec: str) -> Package | None:
    """Return the package `NAME==VERSION` if an earlier command installed it, else None."""
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
    manifest = shelf.manifest
    remark = installing.remark(manifest)
    if remark and shelf.path not in _REPORTED_FOLDERS:
        _REPORTED_FOLDERS.add(shelf.path)
        _LOG.warning(remark)
    return Package(
        name=manifest["name"],
        version=manifest["version"],
        path=str(shelf.path),
        digest=manifest["digest"],
        contains=manifest["contains"],
    )


def parse(spec: str) -> tuple[str, str]:
    """Return the normalised name and the version in `NAME==VERSION`."""
    try:
        requirement = Requirement(spec)
        exact = _EXACT.fullmatch(str(requirement.specifier))
        # An extra or a marker does not select kernels of the package.
        if exact and not (requirement.extras or requirement.marker):
            return canonicalize_name(requirement.name), str(Version(exact[1]))
    except (InvalidRequirement, InvalidVersion):
        pass
    if is_range(spec):
        raise UsageError(
            f"{spec!r} names no package: give NAME==VERSION; for a range, "
            f"`flacheck scan --package {spec!r}` scans every release, and `flacheck known "
            f"{spec!r}` compares the published ones"
        )
    raise UsageError(
        f"{spec!r} names no package: give NAME==VERSION, as flash-linear-attention==0.2.2"
    )


@dataclass(frozen=True)
class ChosenVersion:
    """The version that a package's name alone stands for, with the sentence that says so."""

    spec: str
    sentence: str


def is_name(spec: str) -> bool:
    """Return True for the name of a package without a version, an extra or a marker."""
    return re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", spec.strip()) is not None


def is_range(spec: str) -> bool:
    """Return True for a name with a specifier of several versions, as `flash-kmeans>=0.2`."""
    try:
        requirement = Requirement(spec)
    except InvalidRequirement:
        return False
    if requirement.extras or requirement.marker or requirement.url:
        return False
    return bool(requirement.specifier) and not _EXACT.fullmatch(str(requirement.specifier))


def parse_range(spec: str) -> tuple[str, SpecifierSet]:
    """Return the normalised name and the versions of a range, as `flash-kmeans>=0.2`."""
    requirement = Requirement(spec)
    return canonicalize_name(requirement.name), requirement.specifier


def releases(spec: str) -> list[str]:
    """Return `NAME==VERSION` for each release of a range in the package index, the newest first.

    Raises UsageError if there is none, ToolchainError if the index does not answer.
    """
    name, specifiers = parse_range(spec)
    try:
        versions = index.available(name)
    except wheels.NotFound:
        raise UsageError(f"there is no package {name} in the package index") from None
    matching = list(specifiers.filter(versions))
    if not matching:
        newest = ", ".join(map(str, sorted(versions)[-_MOST_NAMED:]))
        raise UsageError(f"no release of {name} is {specifiers}; the newest: {newest}")
    return [f"{name}=={version}" for version in sorted(matching, reverse=True)]


def installed_releases(spec: str) -> list[str]:
    """Return `NAME==VERSION` for each release of a range that an earlier command installed."""
    name, specifiers = parse_range(spec)
    releases = []
    for shelf in cache.shelves("packages"):
        version = shelf.manifest.get("version", "")
        if shelf.manifest.get("name") == name and specifiers.contains(version, prereleases=True):
            releases.append(f"{name}=={version}")
    return releases


def newest_first(specs: Iterable[str]) -> list[str]:
    """Return each `NAME==VERSION` of a package once, the newest first."""

    def version_of(spec: str) -> Version:
        return Version(spec.partition("==")[2])

    return sorted(set(specs), key=version_of, reverse=True)


def choose_version(name: str) -> ChosenVersion:
    """Return the installed version of a package, else the newest one in the package index."""
    plain = canonicalize_name(name.strip())
    try:
        version, which = importlib.metadata.version(plain), "the installed version"
    except importlib.metadata.PackageNotFoundError:
        version, which = str(_newest(plain)), "the newest version"
    spec = f"{plain}=={version}"
    return ChosenVersion(spec, f"--package {name}: taking {which}, {spec}")


def newest_version(name: str) -> str:
    """Return the newest final version of a package in the package index.

    Raises:
        UsageError: If the index lacks the package.
        ToolchainError: If the index does not answer.
    """
    return str(_newest(canonicalize_name(name)))


def _newest(name: str) -> Version:
    """Return the newest final version in the index, or the newest of any kind."""
    try:
        versions = index.available(name)
    except wheels.NotFound:
        raise UsageError(f"there is no package {name} in the package index") from None
    finals = [version for version in versions if not version.is_prerelease]
    if not versions:
        raise UsageError(f"there is no version of {name} in the package index")
    return max(finals or versions)


def _unknown(name: str, version: str, error: ToolchainError) -> str:
    """Return why the package cannot be found; raise Offline if an index is unreachable."""
    try:
        there = index.available(name)
    except wheels.NotFound:
        return f"there is no package {name} in the package index"
    except wheels.Offline:
        # The package may be in the unreachable index.
        raise
    except ToolchainError:
        return str(error)
    if Version(version) in there:
        return str(error)
    near = ", ".join(map(str, index.near(Version(version), there)))
    return f"there is no {name} {version}; the nearest are {near}"


def _download(name: str, version: str, into: Path, build: BuildWheel) -> dict[str, Any]:
    with temporary_folder() as aside:
        manifest = installing.from_index(name, version, into, Path(aside), build)
    return {**manifest, **_facts(into, name, version)}


def _build(checkout: Path, state: str, into: Path, build: BuildWheel) -> dict[str, Any]:
    # Only a build needs a copy, and a copy of a large history takes time.
    if checkouts.cannot_build(checkout):
        manifest = installing.from_sources(checkout, checkout.name, into, build)
    else:
        with checkouts.temporary_copy(checkout) as copy:
            manifest = installing.from_sources(copy, checkout.name, into, build)
    name = canonicalize_name(manifest["name"])
    version = Version(manifest["version"])
    local = ".".join(filter(None, [version.local, f"h{state[:8]}"]))
    return {**manifest, **_facts(into, name, f"{version.public}+{local}")}


def _facts(into: Path, name: str, version: str) -> dict[str, Any]:
    remove_torch_extensions(into, name)
    files = {distribution.name: _files(distribution) for distribution in _own(into, name)}
    own = digest(files)
    installing.write_bytecode(into / file for file in chain(*files.values()))
    return {"name": name, "version": version, "digest": own, "contains": wheels.contents(into)}


def remove_torch_extensions(folder: Path, name: str) -> None:
    """Remove what a package requires if it is built for one release of torch and has no kernels.

    Beside the guest's torch, its import (torchvision's) would end in an error that few packages
    expect; a package that is absent, as torch is, they do.
    """
    for distribution in importlib.metadata.distributions(path=[str(folder)]):
        # Requirements do not tell: torchvision 0.29.2 accepts later releases than the one it is
        # built for.
        paths = _paths_below(folder, distribution)
        is_own = canonicalize_name(distribution.name) == name
        if is_own or not any(map(_links_torch, paths)) or any(map(_names_triton, paths)):
            continue
        for path in paths:
            path.unlink(missing_ok=True)
        parents = {parent for path in paths for parent in path.parents}
        # An empty folder could be imported. Another package may have files in the same one.
        for parent in sorted(parents - {folder, *folder.parents}, reverse=True):
            with contextlib.suppress(OSError):
                parent.rmdir()


def _paths_below(folder: Path, distribution: importlib.metadata.Distribution) -> list[Path]:
    """Return a distribution's files; its own list may name any other file of this machine."""
    root = folder.resolve()
    paths = []
    for file in distribution.files or ():
        path = folder / file
        if ".." not in file.parts and path.resolve().is_relative_to(root) and path.is_file():
            paths.append(path)
    return paths


def _own(folder: Path, name: str) -> Iterator[importlib.metadata.Distribution]:
    """Yield a distribution and those that it pins with `==`, such as fla-core."""
    rest = {}
    for each in importlib.metadata.distributions(path=[str(folder)]):
        rest[str(canonicalize_name(each.name))] = each
    waiting = [name]
    while waiting:
        distribution = rest.pop(waiting.pop(), None)
        if distribution is None:
            continue
        yield distribution
        for requirement in map(Requirement, distribution.requires or []):
            # A marker is for an extra or for another system.
            if str(requirement.specifier).startswith("==") and not requirement.marker:
                waiting.append(canonicalize_name(requirement.name))


def _names_triton(file: Path) -> bool:
    """Return True for a module that may contain kernels."""
    if file.suffix != ".py":
        return False
    try:
        return b"triton" in files.read_bytes(file, links=True)
    except OSError:
        return False


def _links_torch(file: Path) -> bool:
    """Return True for an extension module that is linked to torch's libraries."""
    if file.suffix != ".so" or file.name.startswith("lib"):
        return False
    try:
        with file.open("rb") as module, mmap(module.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(b"libc10.so") >= 0
    except (OSError, ValueError):
        # An empty file has nothing to map.
        return False


def _files(distribution: importlib.metadata.Distribution) -> dict[str, str]:
    """Return the hashes of the files in the distribution's wheel.

    Bytecode, metadata and scripts are left out, because installers write them.
    """
    hashes = identity.record_hashes(distribution.read_text("RECORD") or "")
    by_installer = re.compile(r"^\.\.|^bin/|\.dist-info/|__pycache__/")
    return {name: value for name, value in hashes.items() if not by_installer.search(name)}
