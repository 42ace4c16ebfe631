"""The `flacheck` command from a warm process: imported once, forked for each command.

A command has its own process, folder, environment and streams, as `python -m flacheck` has; only
the import of about a second is saved.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from typer.testing import CliRunner

import flacheck
from flacheck import cli

# Code for other interpreters: it needs torch, or changes the process that imports it.
_GUEST = "flacheck.guest."


class WarmCommand:
    """A server that runs commands one after another; it ends with this process."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `flacheck` with these arguments; stdin is empty."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
            request = {
                "arguments": list(arguments),
                "cwd": str(cwd),
                "environment": dict(environment),
                "streams": [_path(out), _path(error)],
            }
            code = self._ask(request)
            out.seek(0)
            error.seek(0)
            return subprocess.CompletedProcess(list(arguments), code, out.read(), error.read())

    def _ask(self, request: dict[str, Any]) -> int:
        if self._server is None:
            self._server = _start()
            atexit.register(self._server.communicate)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the warm flacheck ended: its traceback is on stderr"
        return int(answer)


def _path(file: IO[str]) -> str:
    """A name by which another process opens the same file."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.warm"]
    root = Path(__file__).parent.parent
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, text=True)
    server.wait()
    return server


def _serve() -> None:
    """Run each command that a line of stdin describes; write its exit code as a line."""
    # Some tests kill all their children, so the server is not a child.
    if os.fork():
        os._exit(0)
    _import_everything()
    # Ctrl-C in a terminal reaches the server, too; it ends when its stdin is closed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is imported is never collected, so no child copies these pages.
    gc.freeze()
    # The children's streams replace these, so the protocol moves away from them.
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    for line in requests:
        child = os.fork()
        if child == 0:
            requests.close()
            answers.close()
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _import_everything() -> None:
    """Import what commands import, Typer's own late imports included: one command is run."""
    for module in pkgutil.walk_packages(flacheck.__path__, "flacheck."):
        is_command = module.name.endswith("__main__")
        if not is_command and not module.name.startswith(_GUEST):
            importlib.import_module(module.name)
    CliRunner().invoke(cli.app, ["list", "targets"])


def _run(request: dict[str, Any]) -> None:
    """Run one command in this forked process, and exit as Python does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, path in zip((1, 2), request["streams"]):
        file = os.open(path, os.O_WRONLY)
        os.dup2(file, stream)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["flacheck", *request["arguments"]]
    sys.path[0] = request["cwd"]
    try:
        cli.main()
    except SystemExit as end:
        # As an interpreter ends, but the imported modules are not freed one by one.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(int(end.code or 0))


if __name__ == "__main__":
    _serve()
