"""Detection of packages that read flash-linear-attention's configuration files."""

from __future__ import annotations

from pathlib import Path

import pytest

from flacheck.capabilities.autotune import fla_package
from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.errors import UsageError
from flacheck.model import Cell, Imported, Kernel
from flacheck.source.packages.package import Package

READS = 'import os\nFOLDER = os.environ.get("FLA_CONFIG_DIR")\n'
MENTIONS = '"""One day FLA_CONFIG_DIR will be read here."""\n'
KERNELS = """
@fla_cache_autotune(configs=[], key=["K"])
@triton.jit
def cached(x): ...


@triton.autotune(configs=[], key=["K"])
@triton.jit
def plain(x): ...
"""


class MadePackage(Package):
    """A package of one module, `made`."""

    @property
    def modules(self) -> tuple[str, ...]:
        return ("made",)


def package(folder: Path, text: str) -> Package:
    """A package with this text in its module `made.cache`."""
    (folder / "made").mkdir()
    (folder / "made/cache.py").write_text(text)
    (folder / "made/kernels.py").write_text(KERNELS)
    (folder / "made/broken.py").write_text("FLA_CONFIG_DIR = (")
    return MadePackage("made", "1.0", str(folder), "0", {})


def check(folders: dict[str, Package], *names: str) -> list[str]:
    """The notes about autotuned kernels of `made==1.0`."""
    launches = []
    for name in names:
        kernel = Kernel(name, "made==1.0", "0", Imported(name))
        launches.append(
            TunedLaunch(Cell(kernel, "triton==3.7.1", "sm90", None), {}, (), True, None)
        )
    return fla_package.check(launches, folders)


def test_a_package_that_only_mentions_the_folder_is_refused(tmp_path: Path) -> None:
    """A docstring that mentions the folder does not count as reading it."""
    folders = package(tmp_path, MENTIONS)
    with pytest.raises(UsageError, match=r"made==1\.0 has no module that reads FLA_CONFIG_DIR"):
        check({"made==1.0": folders}, "made.kernels:cached")


def test_kernels_that_triton_itself_tunes_are_named(tmp_path: Path) -> None:
    """A kernel under triton.autotune gets a note that files do not change it."""
    folders = {"made==1.0": package(tmp_path, READS)}
    assert check(folders, "made.kernels:cached") == []
    (note,) = check(folders, "made.kernels:cached", "made.kernels:plain")
    assert "decorates made.kernels:plain with triton.autotune" in note


def test_a_package_that_is_not_here_is_not_vouched_for() -> None:
    """The note names --trust if the package's source was not read."""
    (note,) = check({}, "made.kernels:cached")
    assert "flacheck did not check that made==1.0 reads FLA_CONFIG_DIR" in note
    assert "--trust" in note
