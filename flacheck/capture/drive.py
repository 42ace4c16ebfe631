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
from collections.abc import Iterator, Mapping, Sequence
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
_LOG_FILE = "log.txt"
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


@dataclass(frozen=True)
class Drive:
    """A package to drive under a compiler on a card."""

    package: Package
    toolchain: Toolchain
    card: Json


def drive(
    package: Package, toolchain: Toolchain, card: Json, travelling: Captures | None = None
) -> Driven:
    """Call all of a package's operators, layers and modules once more, or find that this was done
    before. Captures that came with a file are all that is used; those that are still to travel are
    copied there.

    Raises IncompleteError without torch, or when the driver itself is killed or hangs; UsageError
    when the file that came holds no such capture.
    """
    _check_torch()
    folder = _folder(Drive(package, toolchain, card))
    name = folder.name
    if travelling and travelling.file:
        folder = travelling.folder / name
        if not _report(folder).exists():
            raise UsageError(
                f"{travelling.file} holds no capture of {package.identity} under "
                f"{toolchain.identity} on {card['gpu']}, made by this flacheck: give each shard "
                "the same releases and targets, or name a file that does not exist yet"
            )
    else:
        prepare([Drive(package, toolchain, card)])
    if travelling and not travelling.file:
        shutil.copytree(folder, travelling.folder / name, ignore=_not_travelling)
    return Driven(_launches(folder), json.loads(_report(folder).read_text(encoding="utf-8")))


def prepare(drives: Sequence[Drive], at_once: int = 1) -> None:
    """Make the captures that are not in the cache yet, so many at a time.

    Raises IncompleteError without torch, or when a driver itself is killed or hangs.
    """
    _check_torch()
    missing = {_folder(each): each for each in drives if not _report(_folder(each)).exists()}
    waiting = list(missing.items())
    for place in range(0, len(waiting), at_once):
        _drive_together(waiting[place : place + at_once])


def _check_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise IncompleteError(
            "capturing a package needs torch beside flacheck: pip install 'flacheck[torch]'"
        )


def _folder(drive: Drive) -> Path:
    package = drive.package
    key = _key(package, drive.toolchain, drive.card, recipe_of(package.name))
    return cache.root() / "captures" / f"{package.name}-{package.version}-{key}"


def _launches(folder: Path) -> Path:
    return folder / "launches.jsonl"


def _report(folder: Path) -> Path:
    return folder / "report.json"


def _partial(folder: Path) -> Path:
    return folder / f"report.{os.getpid()}"


def _drive_together(drives: Sequence[tuple[Path, Drive]]) -> None:
    """Start these drives and wait for all of them; when one fails, the others end with it."""
    with contextlib.ExitStack() as running:
        started = []
        for folder, each in drives:
            folder.mkdir(parents=True, exist_ok=True)
            identity, gpu = each.package.identity, each.card["gpu"]
            _LOG.info(f"capturing {identity} under {each.toolchain.identity} on {gpu} …")
            _launches(folder).write_text("", encoding="utf-8")
            environment = _environment(each.package, each.toolchain)
            driver = _running(_config(folder, each), environment, folder / _LOG_FILE)
            started.append(running.enter_context(driver))
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE * SECONDS)
    # All that ended well is kept, whatever became of the others.
    ended = {folder: _kept(folder) for folder, _ in drives}
    for folder, each in drives:
        if not ended[folder]:
            raise _without_report(folder, each.package)


def _config(folder: Path, drive: Drive) -> Json:
    package = drive.package
    return {
        "output": str(_launches(folder)),
        # A report stands for a finished drive: it comes to its name last.
        "report": str(_partial(folder)),
        "card": drive.card,
        "modules": list(package.modules),
        "package": package.identity,
        "packages": {package.path: package.identity},
        "recipe": recipe_of(package.name),
        "dtypes": ["bf16", "fp16", "fp32"],
        "seconds": SECONDS,
    }


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


@contextlib.contextmanager
def _running(
    config: Json, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A driver at work. It ends with the context, and all that it started with it: also one that
    hangs, and when we are interrupted."""
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
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _kept(folder: Path) -> bool:
    """Give a finished drive's report its name; False where there is none."""
    if not _partial(folder).exists():
        return False
    _partial(folder).replace(_report(folder))
    return True


def _without_report(folder: Path, package: Package) -> IncompleteError:
    log = folder / _LOG_FILE
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return IncompleteError(
        f"capturing {package.identity} ended without a report; its log is {log}: "
        + "".join(said[-1:])
    )
