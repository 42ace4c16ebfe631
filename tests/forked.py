"""Scripts in processes of their own, forked from a server that has imported flacheck once."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from tests.paths import ROOT

_CONTEXT = multiprocessing.get_context("forkserver")
# Modules that the scripts import.
_CONTEXT.set_forkserver_preload(
    [
        *("pytest", "flacheck.engine.loop", "flacheck.store", "tests.fake", "tests.made_records"),
        *("pip._internal.cli.main_parser", "pip._internal.commands.index"),
    ]
)


class Script:
    """A running script; `sys.argv[1:]` are its arguments."""

    def __init__(self, text: str, *arguments: object, cwd: Path = ROOT) -> None:
        reader, writer = _CONTEXT.Pipe(duplex=False)
        words = ["-c", *map(str, arguments)]
        self._process = _CONTEXT.Process(target=_execute, args=(text, words, str(cwd), writer))
        self._process.start()
        writer.close()
        self.stdout = os.fdopen(os.dup(reader.fileno()))
        reader.close()

    @property
    def pid(self) -> int:
        """The process that runs the script."""
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def is_alive(self) -> bool:
        """Return True until the script ends."""
        return self._process.is_alive()

    def wait(self, timeout: float = 300) -> int:
        """Return the exit status once the script ends, -9 after SIGKILL."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, "the script does not end"
        return self._process.exitcode

    def output(self, timeout: float = 300) -> str:
        """Return what the script prints until its end."""
        with self.stdout:
            text = self.stdout.read()
        self.wait(timeout)
        return text


def _execute(text: str, words: list[str], cwd: str, stdout: Connection) -> None:
    os.dup2(stdout.fileno(), 1)
    stdout.close()
    os.chdir(cwd)
    sys.argv = words
    exec(compile(text, "<script>", "exec"), {"__name__": "__main__"})
