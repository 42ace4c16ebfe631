"""A driver of nvcc for one CUDA C++ translation unit at a time.

A quick run of the front end comes first, then the whole compile, whose assembler reports the
resources of each function. nvcc prints the programs that it starts (`-v`), so the stage is known
however the compile ends. It passes their command lines to a shell, so text that a shell would
interpret is refused.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable

from ..engine.messages import Json, Mark, Reply, Request, WorkerConfig
from .cuda_units import (
    FunctionFigures,
    UnitRefused,
    check_file_name,
    check_flag,
    define,
    projects,
    write,
)

# Lines of `nvcc -v`: a setting, or the next command.
_SETTING = re.compile(r"#\$ \w+=")
_PREPROCESSES = re.compile(r"#\$ \S*(?:gcc|g\+\+|clang)\S* .*-E ")
_PROGRAM = re.compile(r"#\$ \S*?(cudafe\+\+|cicc|ptxas|nvlink|fatbinary|bin2c|gcc|g\+\+|clang)")
# The commands that turn the preprocessed text into code of the device.
_COMPILES = re.compile(r"\S*(?:cicc|ptxas)\b")
_BARE_PTXAS = re.compile(r"^ptxas\b")
_STAGES = {"cudafe++": "syntax", "cicc": "ptx", "ptxas": "cubin"}
# The preprocessor's line for each file that it reads (`-H`), and its advice at the end.
_INCLUDE_LINE = re.compile(r"\.+[!x]? (.+)")
_ADVICE = "Multiple include guards may be useful for:"
_PATH = re.compile(r"[^\s:()]+")
# An error of the front end, which several programs share: it always belongs to the same stage.
_FRONT_END = re.compile(r"errors? detected in the compilation of|^\S+: fatal error: ", re.MULTILINE)
# A file that one of nvcc's programs may not read, or that the assembler does not find.
_DENIED_FILE = re.compile(
    r"([^\s:'\"]+)['\"]?(?: for reading)?: Permission denied"
    r"|file not found: ([^\s:'\"]+)"
)
# The folders with the host compilers' own headers.
_SYSTEM = ("/usr/include", "/usr/lib", "/usr/local/include", "/usr/share/libc")
# Errors after which the front end stops. The first one names the cause, and a template that fails
# in each of its instantiations takes gigabytes until nvcc's own limit of 100.
_MOST_ERRORS = 12
# The maximum number of characters of a log. The first cause comes early.
_LOG_LIMIT = 4 << 20


class NvccWorker:
    """One toolkit, with the host compilers of this machine."""

    def __init__(self, config: WorkerConfig) -> None:
        self._toolkit = config["toolkit"]
        self._hosts = config["hosts"]
        self._scratch = config["scratch"]
        self._projects = projects(config)

    def tolerates(self, error: BaseException) -> bool:
        """Return False: no autotuner skips a unit."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        folder = tempfile.mkdtemp(dir=self._scratch)
        try:
            compilation = NvccCompilation(self._command(request), self._root, folder, mark)
            compilation.allowed_folders = [*self._folders(), folder]
            compilation.check(request["kernel"]["unit"])
            operation = getattr(self, "op_" + request["op"])
            answer: Reply = operation(request, compilation)
        except UnitRefused as error:
            os.write(2, f"flacheck: {error}\n".encode())
            answer = {"outcome": "raised", "stage": "syntax"}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return answer

    def op_compile(self, request: Request, compilation: NvccCompilation) -> Reply:
        """Run the front end alone, then the whole compile."""
        until = request["until"]
        is_device_code = request["kernel"]["unit"].endswith(".cu")
        # The front end finds every error of a template in a fraction of the time of a whole
        # compile.
        if is_device_code:
            front_end = ["-fdevice-syntax-only", "-cubin", f"-Xcudafe=--error_limit={_MOST_ERRORS}"]
            if not compilation.run(front_end, "syntax"):
                return compilation.failure()
        if until != "syntax":
            last = "-c"
            if until in ("ptx", "cubin"):
                last = f"-{until}"
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

    def op_preprocess(self, request: Request, compilation: NvccCompilation) -> Reply:
        """Return the text for the device's front end, and the commands that compile it."""
        compilation.run(["--keep", "--keep-dir", compilation.folder, "-cubin"], "")
        return {"stage": "syntax", "facts": compilation.preprocessed_text(self._toolkit)}

    @property
    def _root(self) -> str:
        return str(self._projects[0]["path"])

    def _folders(self) -> list[str]:
        """Return the folders from which a unit may include files."""
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
        nvcc = os.path.join(self._toolkit, "bin", "nvcc")
        command = [nvcc, "-ccbin", host]
        command += [
            check_flag(f"-std={options['std']}"),
            f"-gencode=arch=compute_{number},code=sm_{number}",
        ]
        for flag in kernel.get("flags", ()):
            command.append(check_flag(flag))
        launch = request["launch"] or {"args": {}}
        for name, value in launch["args"].items():
            command.append(define(name, value))
        folders = list(kernel.get("includes", ()))
        folders += self._projects[0].get("includes", [])
        for folder in folders:
            command += ["-I", check_file_name(str(folder))]
        return [*command, check_file_name(unit)]


# The name under which the server looks for a module's worker.
Worker = NvccWorker


class NvccCompilation:
    """The compile of one unit by nvcc: its output, its cost, its stage."""

    def __init__(self, command: list[str], root: str, folder: str, mark: Mark) -> None:
        self._command = command
        self._root = root
        self.folder = folder
        self._commands: list[str] = []
        self._mark = mark
        self.allowed_folders: list[str] = []
        self.figures = FunctionFigures()
        self.seconds = 0.0
        self.peak_mb = 0.0
        self._stage = "syntax"
        self._code = 0
        self._log: list[str] = []
        self._size = 0
        self._is_allowed: dict[str, bool] = {}

    def run(self, flags: list[str], stage: str) -> bool:
        """Run nvcc and return True on success; `stage` is set if the run is a single stage."""
        object_file = os.path.join(self.folder, "unit.out")
        command = [*self._command, "-v", "-Xcompiler", "-H"]
        command += [*flags, "-o", object_file]
        self._log, self._size = [], 0
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env={**os.environ, "TMPDIR": self.folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # The worker has no threads, so a fork cannot leave a lock behind.
            preexec_fn=_write_large_files,
        )
        assert process.stdout is not None
        self._enter(stage or "syntax")
        try:
            self._listen(process.stdout, stage)
        except UnitRefused:
            # `Popen.kill` would reap a process that has ended by itself, and `wait4` would fail.
            os.kill(process.pid, signal.SIGKILL)
            raise
        finally:
            process.stdout.close()
            # The usage of nvcc and of all children that it waited for.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = self._code = os.waitstatus_to_exitcode(status)
            # CPU time, because the programs run one after the other on a machine that may be busy.
            self.seconds += usage.ru_utime + usage.ru_stime
            self.peak_mb = max(self.peak_mb, usage.ru_maxrss / 1024)
        if self._code < 0:
            self._keep(f"nvcc died due to signal {-self._code}\n")
        return self._code == 0

    def failure(self) -> Reply:
        """Return the reply for a failed compile; write its output to the log."""
        output = "".join(self._log)
        for denial in _DENIED_FILE.finditer(output):
            name = denial[1] or denial[2]
            # The file exists, and the compiler was kept from it.
            path = os.path.join(self._root, name)
            if denial[1] or os.path.lexists(path):
                raise _outside(name)
        if _FRONT_END.search(output):
            self._stage = "syntax"
        write(output)
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
        """Read nvcc's output line by line: files, programs and resources; keep all other lines."""
        in_advice = False
        for raw in lines:
            line = raw.decode(errors="replace")
            include_line = _INCLUDE_LINE.fullmatch(line.rstrip("\n"))
            in_advice = in_advice and _PATH.fullmatch(line.rstrip("\n")) is not None
            if line.startswith("#$ "):
                self._follow(line, stage)
            elif include_line is not None:
                self.check(include_line[1])
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

    def check(self, file: str) -> None:
        """Raise UnitRefused for a file outside the folders that the unit may read.

        An error in the file would show its content.
        """
        if file not in self._is_allowed:
            path = os.path.join(self._root, file)
            path = os.path.realpath(path)
            self._is_allowed[file] = False
            for folder in self.allowed_folders:
                if path.startswith(os.path.realpath(folder) + os.sep):
                    self._is_allowed[file] = True
        if not self._is_allowed[file]:
            raise _outside(file)

    def _keep(self, line: str) -> None:
        self._size += len(line)
        if self._size < _LOG_LIMIT:
            self._log.append(line)

    def preprocessed_text(self, toolkit: str) -> Json:
        """Return the text for the device's front end, and the commands that compile it.

        `$CUDA_HOME` stands for the toolkit, and no other path of this machine is in the text.
        """
        names = sorted(os.listdir(self.folder))
        texts = [name for name in names if name.endswith(".cpp1.ii")]
        if not texts:
            return {"text": None, "name": None, "commands": []}
        path = os.path.join(self.folder, texts[0])
        with open(path, errors="replace") as file:
            text = file.read()
        commands = []
        for line in self._commands:
            if _COMPILES.match(line):
                line = self._plain(line, toolkit, "$CUDA_HOME")
                line = line.replace("$CICC_PATH", "$CUDA_HOME/nvvm/bin")
                commands.append(_BARE_PTXAS.sub('"$CUDA_HOME/bin/ptxas"', line))
        # Line markers name files, whose content is in the text.
        plain_text = self._plain(text, toolkit, "cuda")
        return {"text": plain_text, "name": texts[0], "commands": commands}

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
    """Raise the file size limit to its maximum.

    A unit of templates takes hundreds of megabytes on its way through nvcc's programs, and a
    worker's own limit is that of its log.
    """
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
