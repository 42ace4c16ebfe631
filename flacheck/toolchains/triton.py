"""The Triton family: its releases and other builds, and their installation.

Other builds are this environment's, a wheel file, a folder or a source build.
"""

import importlib.metadata
import importlib.util
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.tags import sys_tags
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.model import digest
from flacheck.tables import targets
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import cache, filling, identity, lld, wheel_file, wheels
from flacheck.toolchains import triton_releases as releases
from flacheck.toolchains.base import Choice, NotInstalled, Resolution, Toolchain
from flacheck.toolchains.triton_releases import NAME, OLDEST

# These import setuptools (3.0.0 and 3.1.0 also filelock) at `import triton`; only filelock is
# declared.
_WITHOUT_SETUPTOOLS = Version("3.3")
_SUPPORT = ("setuptools<81", "filelock")
# In the order in which they run; the last two are AMD's.
STAGES = ("ast", "ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")
# The version is read, not imported: another compiler's package must not run in flacheck's process.
_VERSION = re.compile(r"""^__version__\s*=\s*['"]([^'"]+)['"]""", re.MULTILINE)


class Triton:
    """The Triton compiler, from 3.0.0 on."""

    name = NAME
    language = "triton"
    stages = STAGES

    def target(self, name: str) -> str:
        return targets.find(name).name

    def options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        # Each release has its own defaults, which belong to its behaviour.
        return options

    def versions(self) -> Resolution:
        versions, warnings = releases.here()
        return Resolution(tuple(map(releases.release, versions)), warnings)

    def resolve(self, spec: str) -> Resolution:
        """Return the releases of a specification.

        `3.2.0` and `==3.2.0` are one release; a wildcard or a list of bounds may be several.
        """
        plain = spec.removeprefix("===").removeprefix("==").strip()
        is_exact = spec.startswith("==") and not plain.endswith("*") and "," not in plain
        if is_exact or spec[:1] not in "<>=!~":
            return Resolution((releases.exact(Version(plain if is_exact else spec)),))
        return releases.matching(SpecifierSet(spec))

    def find_installed(self) -> Choice:
        """Return the Triton that `import triton` would find here, without importing it."""
        spec = importlib.util.find_spec(NAME)
        if spec is None or not spec.submodule_search_locations:
            raise NotInstalled(
                f"no {NAME} is installed for {sys.executable}; `pip install {NAME}`, or ask for a"
                f" release (--{NAME} 3.6.0), which flacheck keeps in its own cache"
            )
        package = Path(next(iter(spec.submodule_search_locations)))
        version, files = _read_version(package), identity.content(package)
        name = identity.local(NAME, version.partition("+")[0], files)
        beside = importlib.metadata.distributions(name=NAME, path=[str(package.parent)])
        distribution = next(iter(beside), None)
        if distribution and distribution.version != version:
            distribution = None
        if distribution and identity.is_release(distribution, package, files):
            name = f"{NAME}=={version}"
        return _make_choice(package.parent, version, name, "installed")

    def holds(self, path: str) -> bool:
        there = Path(path).expanduser().absolute()
        return there.suffix == ".whl" or _find_package(there) is not None

    def at(self, path: str) -> Choice:
        """Return the Triton in a wheel file, or in a folder with `triton/` or `python/triton/`."""
        there = Path(path).expanduser().absolute()
        if there.suffix == ".whl":
            return _read_wheel(there)
        package = _find_package(there)
        if package is not None:
            return _read_build(package)
        raise UsageError(
            f"{there} holds no {NAME}: neither {NAME}/__init__.py nor python/{NAME}/__init__.py is"
            " there"
        )

    def provide(self, choice: Choice) -> Toolchain:
        if choice.reason:
            raise ToolchainError(f"{choice.identity} cannot be installed: {choice.reason}")
        if choice.location and not choice.location.endswith(".whl"):
            return _make_toolchain(choice, _link_folders(choice))
        shelf = filling.fill(folder(choice), lambda into: _download(choice, into))
        # Its keys identify the release; an edit after its installation would falsify them.
        if identity.is_altered(shelf.path, NAME):
            raise identity.damaged(choice.identity, str(shelf.path))
        return _make_toolchain(choice, (str(shelf.path),))


def folder(choice: Choice) -> Path:
    """Return the place of a release or a wheel's content in the cache."""
    return cache.root() / "toolchains" / f"{choice.identity.replace('==', '-')}{releases.suffix()}"


def _find_package(there: Path) -> Path | None:
    """Return the package's folder in, or at, a folder; None if it has none."""
    for parent in (there, there / "python", there.parent):
        package = parent / NAME
        is_named = parent != there.parent or there.name == NAME
        if is_named and (package / "__init__.py").is_file():
            return package
    return None


def _make_choice(
    location: Path, version: str, name: str, origin: str, reason: str | None = None
) -> Choice:
    """Return a compiler in a folder or a wheel file, by its identity `name`."""
    number = Version(version)
    if number < OLDEST:
        raise UsageError(f"{location} holds {NAME} {number}; flacheck supports {OLDEST} and newer")
    unsupported = releases.refusals(number)
    return Choice(NAME, version, name, origin, str(location), reason, unsupported)


def _read_build(package: Path) -> Choice:
    if not list(package.glob("_C/libtriton*")):
        raise UsageError(f"{package} is not built: there is no _C/libtriton in it")
    version = _read_version(package)
    name = identity.local(NAME, version.partition("+")[0], identity.content(package))
    return _make_choice(package.parent, version, name, "path")


def _read_wheel(path: Path) -> Choice:
    if not path.exists():
        raise UsageError(f"{path} is not there: name a wheel file that is")
    try:
        wheel = wheel_file.read(path)
        files = identity.wheel_content(path, NAME)
    except (ValueError, zipfile.BadZipFile, StopIteration, OSError) as error:
        why = error or type(error).__name__
        raise UsageError(f"{path} cannot be read as a wheel: {why}") from error
    if not files:
        raise UsageError(f"{path} holds {wheel.name}, not {NAME}")
    reason = None
    if wheel.tags.isdisjoint(sys_tags()):
        reason = (
            f"{path.name} is not a wheel for CPython {sys.version_info[0]}.{sys.version_info[1]}"
        )
    local = identity.local(NAME, wheel.version.public, files)
    return _make_choice(path, str(wheel.version), local, "path", reason)


def _read_version(package: Path) -> str:
    """Return `__version__` from the package's source."""
    match = _VERSION.search((package / "__init__.py").read_text(errors="replace"))
    if not match:
        raise UsageError(f"{package}/__init__.py has no __version__")
    return match[1]


def _download(choice: Choice, into: Path) -> dict[str, Any]:
    """Install a release, or a wheel file, with its dependencies into a folder."""
    if choice.location:
        with wheel_file.named_rightly(Path(choice.location)) as wheel:
            return _install(choice, str(wheel), into)
    return _install(choice, f"{NAME}=={choice.version}", into)


def _install(choice: Choice, requirement: str, into: Path) -> dict[str, Any]:
    requirements = [requirement]
    if Version(choice.version) < _WITHOUT_SETUPTOOLS:
        requirements += _SUPPORT
    about = {"name": NAME, "version": choice.version, "identity": choice.identity}
    what = f"{NAME} {choice.version}"
    report = wheels.install(requirements, into, what=what)
    if identity.is_altered(into, NAME):
        # uv links its own cache's files, so an edit in some environment can reach every later
        # install.
        installer = report["installer"]
        clean = {"uv": "clean"}.get(installer, "remove")
        raise ToolchainError(
            f"{what} as installed by {installer} differs from its wheel: {installer}'s cache holds"
            f" edited files; run `{installer} cache {clean} {NAME}`"
        )
    return {**about, **report}


def _link_folders(choice: Choice) -> tuple[str, ...]:
    """Return folders that show a compiler in place, without the rest of its environment."""
    package = Path(choice.location or "") / NAME
    name = f"{choice.identity.replace('==', '-')}-{digest(str(package), 8)}{releases.suffix()}"

    def link(into: Path) -> dict[str, Any]:
        (into / NAME).symlink_to(package)
        # 3.4.0 and 3.5 find their backends by this metadata; older releases search the folder,
        # newer ones are configured to.
        metadata = into / f"{NAME}-{choice.version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0\n")
        entries = f"[{NAME}.backends]\n"
        for file in sorted(package.glob("backends/*/compiler.py")):
            backend = file.parent.name
            entries += f"{backend} = {NAME}.backends.{backend}\n"
        (metadata / "entry_points.txt").write_text(entries)
        return {"identity": choice.identity, "location": choice.location}

    paths = [str(filling.fill(cache.root() / "links" / name, link).path)]
    if Version(choice.version) < _WITHOUT_SETUPTOOLS:
        support = cache.root() / "links" / f"support{releases.suffix()}"
        filling.fill(
            support, lambda into: wheels.install(_SUPPORT, into, what="setuptools and filelock")
        )
        paths.append(str(support))
    return tuple(paths)


def _make_toolchain(choice: Choice, paths: tuple[str, ...]) -> Toolchain:
    linker = lld.find(Version(choice.version))
    missing = {}
    if linker.problem:
        for name, target in TARGETS.items():
            if target.backend == "hip":
                missing[name] = linker.problem
    config = {}
    if linker.path:
        config["programs"] = [linker.path]
    return Toolchain(
        name=NAME,
        version=choice.version,
        identity=choice.identity,
        origin=choice.origin,
        paths=paths,
        worker="triton_worker",
        stages=STAGES,
        unsupported=choice.unsupported,
        missing=missing,
        environment={"TRITON_BACKENDS_IN_TREE": "1", **linker.environment},
        config=config,
    )
