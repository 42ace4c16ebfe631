"""Packages whose kernels are compiled: installed beside no torch, no triton and no CUDA, in a
folder of their own."""

import functools
import importlib.metadata
import logging
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.model import digest
from flacheck.packages import checkouts
from flacheck.source.modules import importable
from flacheck.toolchains import cache, filling, identity, index, wheels

_LOG = logging.getLogger(__name__)

# The guest brings these: a recording torch, and each release of Triton in turn.
STAND_INS = ("torch", "triton")
# High enough for every lower bound on them.
_STAND_IN_VERSION = "9999.0"


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
        """Every module that they bring, each package before its modules: no dependency's, none of
        their tests, and nothing that runs when it is imported, as `__main__` does."""
        files = {name for owner in _own(Path(self.path), self.name) for name in _files(owner)}
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


def _folder(name: str) -> Path:
    return cache.root() / "packages" / f"{name}-{cache.python_tag()}"


def _package(shelf: cache.Shelf) -> Package:
    said = shelf.manifest
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
    try:
        there = index.available(name, binary_only=False)
    except wheels.NotFound:
        return f"there is no package {name} in the package index"
    except ToolchainError:
        return str(error)
    if Version(version) in there:
        return str(error)
    near = ", ".join(map(str, index.near(Version(version), there)))
    return f"there is no {name} {version}; the nearest are {near}"


def _download(name: str, version: str, into: Path) -> dict[str, Any]:
    done = _install(f"{name}=={version}", f"{name} {version}", into)
    return {**done, **_facts(into, name, version)}


def _build(checkout: Path, state: str, into: Path) -> dict[str, Any]:
    why = checkouts.cannot_build(checkout)
    done: dict[str, Any] = {}
    if why is None:
        try:
            with checkouts.copied(checkout) as copy:
                done = _install(str(copy), checkout.name, into)
        except wheels.Offline:
            raise
        except ToolchainError as error:
            if not checkouts.importable(checkout):
                raise
            why = str(error).splitlines()[0]
    if why is not None:
        done = _take(checkout, why, into)
    built = checkouts.installed(into)
    version = Version(built.version)
    local = ".".join(filter(None, [version.local, f"h{state[:8]}"]))
    return {**done, **_facts(into, canonicalize_name(built.name), f"{version.public}+{local}")}


def _take(checkout: Path, why: str, into: Path) -> dict[str, Any]:
    """The Python files of a checkout as they stand, and what of its requirements can be had: its
    compiled extensions are left out, and kernels need none."""
    for left in into.iterdir():
        # What an installer that failed has left.
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    missing = []
    _, _, requires = checkouts.said_of(checkout)
    for wanted in _wanted(requires):
        try:
            _install(wanted, wanted, into)
        except wheels.Offline:
            raise
        except ToolchainError:
            missing.append(wanted)
    checkouts.take(checkout, into)
    rest = ""
    if missing:
        rest = f"; what it requires and could not be installed: {', '.join(missing)}"
    _LOG.warning(
        f"{checkout.name} is not built ({why}): its Python files are used as they stand, without "
        f"compiled extensions{rest}"
    )
    return {"installer": "copy", "left_out": missing, "why": why}


def _wanted(requires: Sequence[str]) -> Iterator[str]:
    """The requirements that hold here, without what the guest brings and what only a GPU needs."""
    for text in requires:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        name = canonicalize_name(wanted.name)
        holds = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if holds and name not in STAND_INS and not name.startswith("nvidia-"):
            yield text


def _facts(into: Path, name: str, version: str) -> dict[str, Any]:
    own = digest({d.name: _files(d) for d in _own(into, name)})
    return {"name": name, "version": version, "digest": own, "contains": wheels.contents(into)}


def _install(requirement: str, what: str, into: Path) -> dict[str, Any]:
    aside = into / ".stand-ins"
    aside.mkdir(exist_ok=True)
    constraints = aside / "constraints.txt"
    constraints.write_text("".join(f"{n} @ {_stand_in(aside, n).as_uri()}\n" for n in STAND_INS))
    done = wheels.install([requirement], into, what=what, constraints=constraints)
    shutil.rmtree(aside)
    for name in STAND_INS:
        shutil.rmtree(into / f"{name}-{_STAND_IN_VERSION}.dist-info", ignore_errors=True)
    return done


def _stand_in(folder: Path, name: str) -> Path:
    """An empty wheel that satisfies every requirement on `name`, so that the installer brings no
    real one."""
    wheel = folder / f"{name}-{_STAND_IN_VERSION}-py3-none-any.whl"
    info = f"{name}-{_STAND_IN_VERSION}.dist-info"
    entries = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {_STAND_IN_VERSION}\n",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: flacheck\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    entries[f"{info}/RECORD"] = "".join(f"{entry},,\n" for entry in [*entries, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for entry, text in entries.items():
            archive.writestr(entry, text)
    return wheel


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


def _files(distribution: importlib.metadata.Distribution) -> dict[str, str]:
    """What the distribution's wheel held: no bytecode, no metadata, no scripts, which installers
    write."""
    hashes = identity.record_hashes(distribution.read_text("RECORD") or "")
    written = re.compile(r"^\.\.|\.dist-info/|__pycache__/")
    return {name: value for name, value in hashes.items() if not written.search(name)}
