"""The Triton family: which releases there are, what each knows, and how one is made ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flacheck.errors import ToolchainError, UsageError
from flacheck.model import digest
from flacheck.tables.targets import TARGETS
from flacheck.toolchains import cache, filling, identity, lld, places, wheels
from flacheck.toolchains import triton_releases as releases
from flacheck.toolchains.base import Choice, Resolution, Toolchain
from flacheck.toolchains.triton_releases import NAME, OLDEST

# These import setuptools (3.0.0 and 3.1.0 also filelock) at `import triton`; only filelock is
# declared.
_WITHOUT_SETUPTOOLS = Version("3.3")
_SUPPORT = ("setuptools<81", "filelock")
# In the order in which they run; the last two are those of AMD.
STAGES = ("ast", "ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco")


class Triton:
    """The Triton compiler, from 3.0.0 on."""

    name = NAME

    def versions(self) -> Resolution:
        found, warnings = releases.here()
        return Resolution(tuple(releases.release(v) for v in found), warnings)

    def resolve(self, spec: str) -> Resolution:
        if spec[:1] in "<>=!~" and not _exact_version(spec):
            return releases.matching(SpecifierSet(spec))
        return Resolution((releases.exact(Version(_exact_version(spec) or spec)),))

    def installed(self) -> Choice:
        return _placed(places.installed(), "installed")

    def at(self, path: str) -> Choice:
        return _placed(places.at(Path(path)), "path")

    def provide(self, choice: Choice) -> Toolchain:
        if choice.reason:
            raise ToolchainError(f"{choice.identity} cannot be had: {choice.reason}")
        if choice.location and not choice.location.endswith(".whl"):
            return _toolchain(choice, _linked(choice))
        shelf = filling.fill(folder(choice), lambda into: _download(choice, into))
        return _toolchain(choice, (str(shelf.path),))


def folder(choice: Choice) -> Path:
    """Where a release or a wheel's content lies in the cache."""
    return (
        cache.root() / "toolchains" / f"{choice.identity.replace('==', '-')}-{cache.python_tag()}"
    )


def _exact_version(spec: str) -> str | None:
    """The version in `==3.2.0`; None for wildcards and everything else."""
    plain = spec.removeprefix("===").removeprefix("==").strip()
    exact = spec.startswith("==") and not plain.endswith("*") and "," not in plain
    return plain if exact else None


def _placed(place: places.Place, origin: str) -> Choice:
    version = Version(place.version)
    if version < OLDEST:
        raise UsageError(
            f"{place.location} holds {NAME} {version}; flacheck drives {OLDEST} and newer"
        )
    return Choice(
        NAME,
        place.version,
        place.identity,
        origin,
        str(place.location),
        place.reason,
        releases.refusals(version),
    )


def _download(choice: Choice, into: Path) -> dict[str, Any]:
    """Install a release, or a wheel file, with what it needs beside it, into a folder."""
    wanted = [choice.location or f"{NAME}=={choice.version}"]
    if Version(choice.version) < _WITHOUT_SETUPTOOLS:
        wanted += _SUPPORT
    about = {"name": NAME, "version": choice.version, "identity": choice.identity}
    what = f"{NAME} {choice.version}"
    done = wheels.install(wanted, into, what=what, binary_only=(NAME,))
    if identity.altered(into, NAME):
        # uv links its own cache's files, so an edit in some environment can reach every later
        # install.
        raise ToolchainError(
            f"{what} as {done['installer']} installed it is not what its wheel held: its cache holds edited files; "
            f"run `{done['installer']} cache {'clean' if done['installer'] == 'uv' else 'remove'} {NAME}`"
        )
    return {**about, **done}


def _linked(choice: Choice) -> tuple[str, ...]:
    """Folders that show a compiler in place, and nothing else of the environment it lies in."""
    package = Path(choice.location or "") / NAME
    name = f"{choice.identity.replace('==', '-')}-{digest(str(package), 8)}{releases.suffix()}"

    def link(into: Path) -> dict[str, Any]:
        (into / NAME).symlink_to(package)
        _describe(into / f"{NAME}-{choice.version}.dist-info", package)
        return {"identity": choice.identity, "location": choice.location}

    paths = [str(filling.fill(cache.root() / "links" / name, link).path)]
    if Version(choice.version) < _WITHOUT_SETUPTOOLS:
        paths.append(str(_support()))
    return tuple(paths)


def _describe(metadata: Path, package: Path) -> None:
    """Metadata by which 3.4.0 and 3.5 find their backends (older look into the folder, newer are
    told to).
    """
    backends = sorted(path.parent.name for path in package.glob("backends/*/compiler.py"))
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0\n")
    entries = "".join(f"{name} = {NAME}.backends.{name}\n" for name in backends)
    (metadata / "entry_points.txt").write_text(f"[{NAME}.backends]\n{entries}")


def _support() -> Path:
    """What old releases import without bringing it."""
    return filling.fill(
        cache.root() / "links" / f"support{releases.suffix()}",
        lambda into: wheels.install(_SUPPORT, into, what="setuptools and filelock"),
    ).path


def _toolchain(choice: Choice, paths: tuple[str, ...]) -> Toolchain:
    linker = lld.find(Version(choice.version))
    problem = linker.problem
    missing = {
        name: problem for name, target in TARGETS.items() if problem and target.backend == "hip"
    }
    return Toolchain(
        name=NAME,
        version=choice.version,
        identity=choice.identity,
        origin=choice.origin,
        paths=paths,
        worker="triton_worker",
        stages=STAGES,
        ld_lld=linker.path,
        refused=choice.refused,
        missing=missing,
        environment={"TRITON_BACKENDS_IN_TREE": "1", **linker.environment},
    )
