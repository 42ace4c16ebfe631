"""Drives a whole package on a card that is not there, beside one compiler, and keeps what it
launched.

A capture is kept in the cache: the same package, compiler, card and driver launch the same.
"""

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from flacheck.capture.travelling import Captures
from flacheck.errors import IncompleteError, UsageError
from flacheck.guest.engine import channel
from flacheck.model import Json, digest
from flacheck.packages.package import Package
from flacheck.toolchains import cache
from flacheck.toolchains.base import Toolchain

_LOG = logging.getLogger(__name__)

# Of CPU, which the driver keeps by itself; one that hangs where no signal reaches it is killed
# after so many times as long by the clock.
SECONDS = 55
_PATIENCE = 6
_FLACHECK = Path(__file__).parent.parent
GUEST = Path(channel.GUEST)


@dataclass(frozen=True)
class Driven:
    """One drive: the launches file, and the driver's report of what it called and what failed."""

    launches: Path
    report: Mapping[str, Any]

    @property
    def import_error(self) -> str | None:
        """The traceback of a package that could not even be imported."""
        failed = self.report.get("import_error")
        if failed is None:
            return None
        return str(failed["traceback"])

    @property
    def kernels(self) -> Counter[str]:
        """How many distinct launches of each kernel were recorded."""
        with self.launches.open(encoding="utf-8") as file:
            lines = (json.loads(line) for line in file)
            return Counter(line["kernel"] for line in lines if "kernel" in line)


def drive(
    package: Package, toolchain: Toolchain, card: Json, travelling: Captures | None = None
) -> Driven:
    """Call all of a package's operators, layers and modules once more, or find that this was done
    before. Captures that came with a file are all that is used; those that are still to travel are
    copied there.

    Raises IncompleteError without torch, or when the driver itself is killed or hangs; UsageError
    when the file that came holds no such capture.
    """
    if importlib.util.find_spec("torch") is None:
        raise IncompleteError(
            "capturing a package needs torch beside flacheck: pip install 'flacheck[torch]'"
        )
    recipe = recipe_of(package.name)
    key = _key(package, toolchain, card, recipe)
    name = f"{package.name}-{package.version}-{key}"
    folder = cache.root() / "captures" / name
    if travelling and travelling.file:
        folder = travelling.folder / name
        if not (folder / "report.json").exists():
            raise UsageError(
                f"{travelling.file} holds no capture of {package.identity} under "
                f"{toolchain.identity} on {card['gpu']}, made by this flacheck: give each shard "
                "the same releases and targets, or name a file that does not exist yet"
            )
    launches, report = folder / "launches.jsonl", folder / "report.json"
    if not report.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _LOG.info(f"capturing {package.identity} under {toolchain.identity} on {card['gpu']} …")
        # A report stands for a finished drive: it comes to its name last.
        partial = folder / f"report.{os.getpid()}"
        launches.write_text("", encoding="utf-8")
        config: Json = {
            "output": str(launches),
            "report": str(partial),
            "card": card,
            "modules": list(package.modules),
            "package": package.identity,
            "packages": {package.path: package.identity},
            "recipe": recipe,
            "dtypes": ["bf16", "fp16", "fp32"],
            "seconds": SECONDS,
        }
        _run(config, _environment(package, toolchain), folder / "log.txt")
        partial.replace(report)
    if travelling and not travelling.file:
        shutil.copytree(folder, travelling.folder / name, ignore=_not_travelling)
    return Driven(launches, json.loads(report.read_text(encoding="utf-8")))


def _not_travelling(folder: str, names: list[str]) -> list[str]:
    """Logs, and what another process has half written, stay here."""
    return [name for name in names if name not in ("launches.jsonl", "report.json")]


def recipe_of(package: str) -> Json:
    """What is special to a package, where somebody wrote it down; else nothing."""
    file = _FLACHECK / "packages" / "recipes" / f"{package}.yaml"
    if not file.is_file():
        return {}
    try:
        recipe = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}") from None
    if isinstance(recipe, dict):
        return recipe
    return {}


def _key(package: Package, toolchain: Toolchain, card: Json, recipe: Json) -> str:
    """All that can change what is launched, the guest's own source included."""
    files = sorted(GUEST.rglob("*.py"))
    guest = {str(file.relative_to(GUEST)): file.read_text() for file in files}
    return digest([package.digest, toolchain.identity, card, recipe, guest], 16)


def _environment(package: Package, toolchain: Toolchain) -> dict[str, str]:
    path = os.pathsep.join([*toolchain.paths, package.path])
    ours = {"PYTHONPATH": path, "TORCHDYNAMO_DISABLE": "1"}
    return {**os.environ, **toolchain.environment, **ours}


def _run(config: Json, environment: Mapping[str, str], log: Path) -> None:
    boot = ["-c", channel.BOOT, str(GUEST), ".package_driver"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *boot, json.dumps(config)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # So that all that it started can be ended with it.
            start_new_session=True,
        )
        _wait(process)
    if not Path(config["report"]).exists():
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise IncompleteError(
            f"capturing {config['package']} ended without a report; its log is {log}: "
            + "".join(said[-1:])
        )


def _wait(process: subprocess.Popen[bytes]) -> None:
    """A driver that hangs is ended with all that it started, also when we are interrupted."""
    try:
        process.wait(_PATIENCE * SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
