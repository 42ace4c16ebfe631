"""Other people's reducers, each a process of its own interpreter that asks us of every candidate
over a socket.
"""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flacheck.capabilities.repro.budget import BudgetSpent
from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.oracle import Oracle
from flacheck.guest.pysource.functions import parameter_names
from flacheck.model.launch import FormError, LaunchForm, check_options

ASKER = str(Path(__file__).with_name("asker.py"))
NAME = "LAUNCH"
YES, NO = b"y", b"n"


@dataclass(frozen=True)
class Rival:
    """How a reducer is started on a file; `{test}` is a command that exits with 0 for a file
    that still shows the failure."""

    name: str
    command: tuple[str, ...]

    def on(self, **places: str) -> list[str]:
        return [word.format(**places) for word in self.command]


RIVALS = (
    Rival("pysource-minimize", ("{python}", "{asker}", "minimize", "{socket}", "{file}")),
    Rival(
        "shrinkray",
        (
            "{python}",
            "-m",
            "shrinkray",
            "--ui",
            "basic",
            "--volume",
            "quiet",
            "--parallelism",
            "1",
            "--formatter",
            "none",
            "--timeout",
            "0",
            "--input-type",
            "arg",
            "--trivial-is-not-error",
            "{test}",
            "{file}",
        ),
    ),
)


@dataclass
class Outcome:
    """What a reducer came to: the smallest specimen that was accepted, how many candidates were
    refused without a compile, and how it ended.
    """

    best: Specimen
    refused: int = 0
    ended: str = "ended by itself"


def module_of(specimen: Specimen) -> str:
    """A specimen as one file: its module, and last the kernel with its arguments and options."""
    launch = f"({specimen.name}, {dict(specimen.args)!r}, {dict(specimen.options)!r})"
    return f"{specimen.source.rstrip()}\n\n\n{NAME} = {launch}\n"


def specimen_of(text: str, like: Specimen) -> Specimen | None:
    """The specimen that a candidate describes; None for what could never be compiled. Layout and
    comments are no part of it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
        *module, last = tree.body
        kernel, arguments, options = last.value.elts  # type: ignore[attr-defined]
        name = kernel.id
        function = next(s for s in module if isinstance(s, ast.FunctionDef) and s.name == name)
        args, chosen = ast.literal_eval(arguments), ast.literal_eval(options)
        LaunchForm().check_arguments(args)
        check_options(chosen)
        source = ast.unparse(ast.Module(module, [])) + "\n"
    except (
        SyntaxError,
        ValueError,
        AttributeError,
        TypeError,
        StopIteration,
        RecursionError,
        FormError,
    ):
        return None
    return like.with_(source=source, name=name, args=_kept(args, function), options=chosen)


def _kept(args: dict[str, Any], function: ast.FunctionDef) -> dict[str, Any]:
    return {name: args[name] for name in parameter_names(function) if name in args}


def reduced_by(
    rival: Rival, python: str, original: Specimen, oracle: Oracle, seconds: float
) -> Outcome:
    """Let a reducer loose on a specimen until it ends, or compiles or seconds are spent."""
    outcome = Outcome(original)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        place, file, test = (os.path.join(folder, name) for name in ("socket", "kernel.py", "test"))
        Path(file).write_text(module_of(original))
        Path(test).write_text(f'#!/bin/sh\nexec "{python}" -I -S "{ASKER}" ask "{place}" "$1"\n')
        Path(test).chmod(0o755)
        server.bind(place)
        server.listen()
        server.settimeout(0.5)
        process = _start(
            rival.on(python=python, asker=ASKER, socket=place, file=file, test=test), folder
        )
        try:
            _serve(server, process, oracle, outcome, time.monotonic() + seconds)
        finally:
            _end(process)
        if process.returncode not in (0, -signal.SIGKILL):
            outcome.ended = f"ended with {process.returncode}"
    return outcome


def _start(command: Sequence[str], folder: str) -> subprocess.Popen[bytes]:
    with open(os.path.join(folder, "log"), "wb") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={"PATH": "/usr/bin:/bin", "HOME": folder},
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _serve(
    server: socket.socket,
    process: subprocess.Popen[bytes],
    oracle: Oracle,
    outcome: Outcome,
    end: float,
) -> None:
    """Answer one candidate a connection until the reducer is gone or there is nothing left to
    spend.
    """
    while process.poll() is None:
        if time.monotonic() > end:
            outcome.ended = "time spent"
            return
        try:
            asker, _ = server.accept()
        except TimeoutError:
            continue
        with asker:
            try:
                answer = YES if _accepted(_received(asker), oracle, outcome) else NO
            except BudgetSpent:
                outcome.ended = "budget spent"
                return
            # A reducer may lose interest in an answer, and end who asked.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                asker.sendall(answer)


def _received(asker: socket.socket) -> str:
    parts = []
    while part := asker.recv(1 << 16):
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _accepted(text: str, oracle: Oracle, outcome: Outcome) -> bool:
    specimen = specimen_of(text, outcome.best)
    if specimen is None:
        outcome.refused += 1
        return False
    if not oracle(specimen):
        return False
    outcome.best = min(outcome.best, specimen, key=lambda s: s.nodes)
    return True
