"""Support of an installed package for flash-linear-attention's configuration files.

FLA 0.5.1 and newer read the folder `FLA_CONFIG_DIR` in `fla/ops/utils/cache.py`, for kernels with
the decorator `fla_cache_autotune`. The package's source is read, not imported.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flacheck import files
from flacheck.capabilities.autotune.results import TunedLaunch
from flacheck.errors import UsageError
from flacheck.evidence.analysis.order import some
from flacheck.source import autotuners
from flacheck.source.packages.package import Package

_VARIABLE = "FLA_CONFIG_DIR"
_DECORATOR = "fla_cache_autotune"
# The number of kernels that a note names.
_SHOWN_KERNELS = 4


def check(tuned_launches: Sequence[TunedLaunch], packages: Mapping[str, Package]) -> list[str]:
    """Return notes about kernels for which emitted files may be without effect.

    Raises UsageError for a package whose source does not read `FLA_CONFIG_DIR`.
    """
    kernels: dict[str, list[str]] = {}
    for each in tuned_launches:
        kernel = each.cell.kernel
        if kernel.package is not None:
            names = kernels.setdefault(kernel.package, [])
            names.append(kernel.name)
    notes = []
    for spec, names in kernels.items():
        package = packages.get(spec)
        if package is None:
            notes.append(
                f"flacheck did not check that {spec} reads {_VARIABLE}, because its source is not "
                "installed here: --trust installs and checks it"
            )
            continue
        require(package)
        notes += _plain(spec, sorted(set(names) - set(reading_kernels(package))))
    return notes


def require(package: Package) -> None:
    """Raise UsageError unless the package's source reads `FLA_CONFIG_DIR`."""
    if not reads_files(package):
        raise UsageError(
            f"--emit fla: {package.identity} has no module that reads {_VARIABLE}, so the files "
            "would have no effect: take a release that does (flash-linear-attention 0.5.1 or "
            "newer), or --emit python"
        )


def _plain(spec: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        names_text = ", ".join(some(names, _SHOWN_KERNELS))
        yield (
            f"{spec} decorates {names_text} with triton.autotune, which reads no files: call "
            "fla.ops.utils.cache.configure_fla_cache_autotune() before the kernels are imported"
        )


def reads_files(package: Package) -> bool:
    """Return True if a module of the package uses the name `FLA_CONFIG_DIR` as a string."""
    for file in _files(package):
        content = files.read_bytes(file, links=True)
        if _VARIABLE.encode() not in content:
            continue
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            # A docstring that mentions the variable is a longer string.
            if isinstance(node, ast.Constant) and node.value == _VARIABLE:
                return True
    return False


def reading_kernels(package: Package) -> list[str]:
    """Return the kernels, as `module:name`, whose autotuner reads the files."""
    root = Path(package.path)
    kernels = []
    for file in _files(package):
        module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for name in autotuners.names_in(file, (_DECORATOR,)):
            kernels.append(f"{module}:{name}")
    return kernels


def _files(package: Package) -> Iterator[Path]:
    for top in package.modules:
        yield from sorted((Path(package.path) / top).rglob("*.py"))
