"""The script itself, run in fresh processes: what a maintainer will see."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flacheck.model import Json
from flacheck.toolchains.base import Toolchain

SHOWS, DOES_NOT, CANNOT_TELL = 0, 1, 125
_LONGEST = 900


@dataclass(frozen=True)
class Runs:
    """How often the failure showed."""

    reproduced: int
    of: int

    def to_json(self) -> Json:
        return {"reproduced": self.reproduced, "of": self.of}

    def __str__(self) -> str:
        return f"{self.reproduced} of {self.of}"


class Verifier:
    """Runs a script by itself, with nothing but a release's folder to import from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def status(self, text: str, toolchain: Toolchain) -> int:
        """The script's exit status under a release; 125 also when it does not end."""
        place = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            script = place / "repro.py"
            script.write_text(text, encoding="utf-8")
            return self._run(script, toolchain)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _run(self, script: Path, toolchain: Toolchain) -> int:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": str(script.parent),
            "TMPDIR": str(script.parent),
            "TRITON_CACHE_DIR": str(script.parent / "cache"),
            "PYTHONPATH": ":".join(toolchain.paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            **toolchain.environment,
        }
        try:
            done = subprocess.run(
                [sys.executable, "-s", str(script)],
                env=environment,
                cwd=script.parent,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST,
            )
        except subprocess.TimeoutExpired:
            return CANNOT_TELL
        return done.returncode

    def runs(self, text: str, toolchain: Toolchain, times: int) -> Runs:
        """k of n on one release."""
        return Runs(sum(self.status(text, toolchain) == SHOWS for _ in range(times)), times)


@contextmanager
def verifier() -> Iterator[Verifier]:
    """A verifier with a scratch folder of its own."""
    with tempfile.TemporaryDirectory(prefix="flacheck-repro-") as folder:
        yield Verifier(Path(folder))
