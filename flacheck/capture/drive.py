"""Drives a whole package on a card that is not there, beside one compiler, and keeps what it
launched.

A capture is kept in the cache: the same package, compiler, card and driver launch the same.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flacheck.errors import IncompleteError, UsageError
from flacheck.model import Json, digest
from flacheck.packages.package import Package
from flacheck.toolchains import cache
from flacheck.toolchains.base import Progress, Toolchain, silent

SECONDS = 55
_PATIENCE = 6
_GUEST = Path(__file__).parent.parent / "guest"
_RECIPES = Path(__file__).parent.parent / "packages" / "recipes"
_BOOT = (
    "import importlib.util as u, sys; f = sys.argv.pop(1); n = 'flacheck_guest'; "
    "s = u.spec_from_file_location(n, f + '/__init__.py', submodule_search_locations=[f]); "
    "m = sys.modules[n] = u.module_from_spec(s); s.loader.exec_module(m); "
    "from flacheck_guest.package_driver import main; main()"
)


@dataclass(frozen=True)
class Driven:
    """One drive: the launches file, and the driver's report of what it called and what failed."""

    launches: Path
    report: Mapping[str, Any]

    @property
    def import_error(self) -> str | None:
        """The traceback of a package that could not even be imported."""
        failed = self.report.get("import_error")
        return str(failed["traceback"]) if failed else None

    @property
    def kernels(self) -> Counter[str]:
        """How many distinct launches of each kernel were recorded."""
        with self.launches.open(encoding="utf-8") as file:
            lines = (json.loads(line) for line in file)
            return Counter(line["kernel"] for line in lines if "kernel" in line)


def drive(
    package: Package, toolchain: Toolchain, card: Json, progress: Progress = silent
) -> Driven:
    """Call all of a package's operators, layers and modules once more, or find that this was done
    before.

    Raises IncompleteError without torch, or when the driver itself is killed or hangs.
    """
    if importlib.util.find_spec("torch") is None:
        raise IncompleteError(
            "capturing a package needs torch beside flacheck: pip install 'flacheck[torch]'"
        )
    recipe = recipe_of(package.name)
    folder = (
        cache.root()
        / "captures"
        / f"{package.name}-{package.version}-{_key(package, toolchain, card, recipe)}"
    )
    launches, report = folder / "launches.jsonl", folder / "report.json"
    if not report.exists():
        folder.mkdir(parents=True, exist_ok=True)
        progress(f"capturing {package.identity} under {toolchain.identity} on {card['gpu']} …")
        partial = folder / f"report.{os.getpid()}"
        launches.write_text("", encoding="utf-8")
        _run(package, toolchain, card, recipe, launches, partial)
        partial.replace(report)
    return Driven(launches, json.loads(report.read_text(encoding="utf-8")))


def recipe_of(package: str) -> Json:
    """What is special to a package, where somebody wrote it down; else nothing."""
    file = _RECIPES / f"{package}.yaml"
    if not file.is_file():
        return {}
    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}") from None
    return loaded if isinstance(loaded, dict) else {}


def _key(package: Package, toolchain: Toolchain, card: Json, recipe: Json) -> str:
    """All that can change what is launched, the driver's own source included."""
    driver = {
        str(path.relative_to(_GUEST)): path.read_text()
        for path in sorted((_GUEST / "capture").rglob("*.py"))
    }
    return digest([package.digest, toolchain.identity, card, recipe, driver], 16)


def _run(
    package: Package, toolchain: Toolchain, card: Json, recipe: Json, launches: Path, report: Path
) -> None:
    config = {
        "output": str(launches),
        "report": str(report),
        "card": card,
        "modules": list(package.modules),
        "package": package.identity,
        "packages": {package.path: package.identity},
        "recipe": recipe,
        "dtypes": ["bf16", "fp16", "fp32"],
        "seconds": SECONDS,
    }
    log = launches.with_name("log.txt")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(_GUEST), json.dumps(config)],
            env={**os.environ, **toolchain.environment, **_environment(package, toolchain)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _wait(process)
    if not report.exists():
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise IncompleteError(
            f"capturing {package.identity} ended without a report; its log is {log}: {''.join(last)}"
        )


def _environment(package: Package, toolchain: Toolchain) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join([*toolchain.paths, package.path]),
        "TORCHDYNAMO_DISABLE": "1",
    }


def _wait(process: subprocess.Popen[bytes]) -> None:
    """A driver that hangs is ended with all that it started; so is one that we are interrupted in."""
    try:
        process.wait(_PATIENCE * SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
