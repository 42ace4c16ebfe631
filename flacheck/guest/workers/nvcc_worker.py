"""Drives nvcc over one CUDA C++ translation unit at a time: a quick look of the front end first,
then the whole compile, whose assembler says what each function asks of the GPU.

nvcc starts other programs and says which (`-v`), so the stage is known whatever becomes of it. It
hands their command lines to a shell: nothing that a shell would act upon is let through.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from typing import Any

from ..engine.messages import Mark, Reply, Request, WorkerConfig
from .cuda_units import (
    FunctionFigures,
    UnitRefused,
    check_file_name,
    check_flag,
    define,
    projects,
    write,
)

# Lines of `nvcc -v`: a setting, or the command that it starts next.
_SETTING = re.compile(r"#\$ \w+=")
_PREPROCESSES = re.compile(r"#\$ \S*(?:gcc|g\+\+|clang)\S* .*-E ")
_PROGRAM = re.compile(r"#\$ \S*?(cudafe\+\+|cicc|ptxas|nvlink|fatbinary|bin2c|gcc|g\+\+|clang)")
# The commands that turn the preprocessed text into code of the device.
_COMPILES = re.compile(r"\S*(?:cicc|ptxas)\b")
_BARE_PTXAS = re.compile(r"^ptxas\b")
_STAGES = {"cudafe++": "syntax", "cicc": "ptx", "ptxas": "cubin"}
# What the preprocessor says of each file that it reads (`-H`), and its advice at the end.
_INCLUDED = re.compile(r"\.+[!x]? (.+)")
_ADVICE = "Multiple include guards may be useful for:"
_PATH = re.compile(r"[^\s:()]+")
# An error of the front end, which several programs share: it has one stage whoever says it.
_FRONT_END = re.compile(r"errors? detected in the compilation of|^\S+: fatal error: ", re.MULTILINE)
# A file that a program of nvcc's may not read, or that the assembler says is not there.
_DENIED = re.compile(
    r"([^\s:'\"]+)['\"]?(?: for reading)?: Permission denied"
    r"|file not found: ([^\s:'\"]+)"
)
# Where every host compiler finds its own headers.
_SYSTEM = ("/usr/include", "/usr/lib", "/usr/local/include", "/usr/share/libc")
# Characters of a log that are kept: the first cause stands early, what ended it late.
_LOG_LIMIT = 4 << 20


class NvccWorker:
    """One toolkit, with the host compilers of this machine."""

    def __init__(self, config: WorkerConfig) -> None:
        self._toolkit = config["toolkit"]
        self._hosts = config["hosts"]
        self._scratch = config["scratch"]
        self._projects = projects(config)

    def tolerates(self, error: BaseException) -> bool:
        """No autotuner skips a unit."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        folder = tempfile.mkdtemp(dir=self._scratch)
        try:
            compilation = _Compilation(self._command(request), self._root, folder, mark)
            compilation.allowed = [*self._folders(), folder]
            compilation.check(request["kernel"]["unit"])
            answer: Reply = getattr(self, "op_" + request["op"])(request, compilation)
        except UnitRefused as error:
            os.write(2, f"flacheck: {error}\n".encode())
            answer = {"outcome": "raised", "stage": "syntax"}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return answer

    def op_compile(self, request: Request, compilation: _Compilation) -> Reply:
        """The front end alone, then everything."""
        until = request["until"]
        is_device_code = request["kernel"]["unit"].endswith(".cu")
        # Every error of a template shows within a part of the time of a whole compile.
        if is_device_code and not compilation.run(["-fdevice-syntax-only", "-cubin"], "syntax"):
            return compilation.failure()
        if until != "syntax":
            last = {"ptx": "-ptx", "cubin": "-cubin"}.get(until or "", "-c")
            if not compilation.run(["--resource-usage", last], ""):
                return compilation.failure()
        answer: Reply = {
            "seconds": compilation.seconds,
            "peak_mb": compilation.peak_mb,
            "resources": compilation.figures.resources(),
        }
        if until is not None:
            answer["stage"] = until
        return answer

    def op_preprocess(self, request: Request, compilation: _Compilation) -> Reply:
        """The text that the front end gets for the device, and the command that compiles it."""
        compilation.run(["--keep", "--keep-dir", compilation.folder, "-cubin"], "")
        return {"stage": "syntax", "facts": compilation.preprocessed(self._toolkit)}

    @property
    def _root(self) -> str:
        return str(self._projects[0]["path"])

    def _folders(self) -> list[str]:
        """Where a unit may include files from."""
        headers = self._projects[0].get("headers", [])
        return [self._toolkit, self._root, *headers, *_SYSTEM]

    def _command(self, request: Request) -> list[str]:
        kernel, options = request["kernel"], request["options"]
        unit = str(kernel["unit"])
        host = self._hosts.get(options["host"])
        if host is None:
            there = ", ".join(self._hosts) or "none"
            raise UnitRefused(f"no host compiler {options['host']} is here; there is {there}")
        number = request["target"][len("sm") :]
        command = [os.path.join(self._toolkit, "bin", "nvcc"), "-ccbin", host]
        command += [
            check_flag(f"-std={options['std']}"),
            f"-gencode=arch=compute_{number},code=sm_{number}",
        ]
        command += [check_flag(flag) for flag in kernel.get("flags", ())]
        launch = request["launch"] or {"args": {}}
        command += [define(name, value) for name, value in launch["args"].items()]
        folders = [*kernel.get("includes", ()), *self._projects[0].get("includes", [])]
        for folder in folders:
            command += ["-I", check_file_name(str(folder))]
        return [*command, check_file_name(unit)]


# The name under which the server looks for a module's worker.
Worker = NvccWorker


class _Compilation:
    """One unit's way through nvcc: what it said, what it took, where it stood."""

    def __init__(self, command: list[str], root: str, folder: str, mark: Mark) -> None:
        self._command = command
        self._root = root
        self.folder = folder
        self._commands: list[str] = []
        self._mark = mark
        self.allowed: list[str] = []
        self.figures = FunctionFigures()
        self.seconds = 0.0
        self.peak_mb = 0.0
        self._stage = "syntax"
        self._code = 0
        self._log: list[str] = []
        self._size = 0
        self._known: dict[str, bool] = {}

    def run(self, flags: list[str], stage: str) -> bool:
        """Whether nvcc ends well; `stage` where all of it is one."""
        output = os.path.join(self.folder, "unit.out")
        command = [*self._command, "-v", "-Xcompiler", "-H", *flags, "-o", output]
        self._log, self._size = [], 0
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env={**os.environ, "TMPDIR": self.folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The worker has no threads that a fork could leave a lock to.
            preexec_fn=_write_large_files,
        )
        assert process.stdout is not None
        self._enter(stage or "syntax")
        try:
            self._listen(process.stdout, stage)
        except UnitRefused:
            process.kill()
            raise
        finally:
            process.stdout.close()
            # Of nvcc and all that it started and waited for.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = self._code = os.waitstatus_to_exitcode(status)
            # Not by the clock: its programs run one after the other, on a machine that may be busy.
            self.seconds += usage.ru_utime + usage.ru_stime
            self.peak_mb = max(self.peak_mb, usage.ru_maxrss / 1024)
        if self._code < 0:
            self._keep(f"nvcc died due to signal {-self._code}\n")
        return self._code == 0

    def failure(self) -> Reply:
        """What is answered of a compile that did not end well; what it said goes to the log."""
        said = "".join(self._log)
        for denied in _DENIED.finditer(said):
            name = denied[1] or denied[2]
            # It is there, and was kept from the compiler.
            if denied[1] or os.path.lexists(os.path.join(self._root, name)):
                raise _outside(name)
        if _FRONT_END.search(said):
            self._stage = "syntax"
        write(said)
        return {
            "outcome": "raised",
            "stage": self._stage,
            "exit_code": self._code,
            "seconds": self.seconds,
            "peak_mb": self.peak_mb,
        }

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._mark(stage)

    def _listen(self, lines: Iterable[bytes], stage: str) -> None:
        """Take what nvcc says line by line: files that are read, programs that are started, what a
        function asks for; all else is kept."""
        in_advice = False
        for raw in lines:
            line = raw.decode(errors="replace")
            included = _INCLUDED.fullmatch(line.rstrip("\n"))
            in_advice = in_advice and _PATH.fullmatch(line.rstrip("\n")) is not None
            if line.startswith("#$ "):
                self._follow(line, stage)
            elif included is not None:
                self.check(included[1])
            elif line.startswith(_ADVICE):
                in_advice = True
            elif self.figures.take(line):
                continue
            elif not in_advice and not line.startswith("# --error"):
                self._keep(line)

    def _follow(self, line: str, stage: str) -> None:
        program = _PROGRAM.match(line)
        if _SETTING.match(line) or program is None:
            return
        self._commands.append(line[len("#$ ") :].strip())
        if stage:
            return
        if _PREPROCESSES.match(line):
            self._enter("syntax")
        else:
            self._enter(_STAGES.get(program[1], "object"))

    def check(self, included: str) -> None:
        """Raises UnitRefused for a file outside of the folders that the unit may read: an error in
        it would show what it holds."""
        if included not in self._known:
            path = os.path.realpath(os.path.join(self._root, included))
            roots = (os.path.realpath(folder) for folder in self.allowed)
            self._known[included] = any(path.startswith(root + os.sep) for root in roots)
        if not self._known[included]:
            raise _outside(included)

    def _keep(self, line: str) -> None:
        self._size += len(line)
        if self._size < _LOG_LIMIT:
            self._log.append(line)

    def preprocessed(self, toolkit: str) -> dict[str, Any]:
        """The text that the device's front end was given, and the commands that compile it, with
        `$CUDA_HOME` in place of the toolkit and no other path of this machine."""
        texts = [name for name in sorted(os.listdir(self.folder)) if name.endswith(".cpp1.ii")]
        if not texts:
            return {"text": None, "name": None, "commands": []}
        with open(os.path.join(self.folder, texts[0]), errors="replace") as file:
            text = file.read()
        commands = [line for line in self._commands if _COMPILES.match(line)]
        plain = [self._plain(line, toolkit, "$CUDA_HOME") for line in commands]
        named = [line.replace("$CICC_PATH", "$CUDA_HOME/nvvm/bin") for line in plain]
        told = [_BARE_PTXAS.sub('"$CUDA_HOME/bin/ptxas"', line) for line in named]
        # Markers of lines name files; what they lead to is in the text.
        return {"text": self._plain(text, toolkit, "cuda"), "name": texts[0], "commands": told}

    def _plain(self, text: str, toolkit: str, instead: str) -> str:
        for path, name in (
            (self.folder + "/", ""),
            (toolkit + "/bin/..", instead),
            (toolkit, instead),
            (self._root + "/", ""),
        ):
            text = text.replace(path, name)
        return text


def _outside(name: str) -> UnitRefused:
    return UnitRefused(
        f"the unit includes {name}, which is in none of its folders: it was not compiled"
    )


def _write_large_files() -> None:
    """A unit of templates is hundreds of megabytes on its way through nvcc's programs; a worker's
    own limit is that of its log."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
