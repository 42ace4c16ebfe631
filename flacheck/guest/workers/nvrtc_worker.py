"""Drives NVRTC over one CUDA C++ translation unit at a time: its code for the device, for NVRTC
knows no host.

The library compiles in the worker's own process, as Triton does: a unit that takes it down takes
the worker, and the server says how.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Sequence
from typing import Any

from ..engine.messages import Mark, Reply, Request, WorkerConfig
from .cuda_includes import check_includes
from .cuda_units import (
    FunctionFigures,
    UnitRefused,
    check_file_name,
    check_flag,
    define,
    projects,
    write,
)

# nvrtcResult, from nvrtc.h.
_SUCCESS, _INVALID_OPTION = 0, 5
# Ends after the front end; NVRTC has it from 12.4 on.
_SYNTAX_ONLY = "-fdevice-syntax-only"
# Flags of nvcc that NVRTC takes, too. All others speak of the host, or of how nvcc goes about it.
_TAKEN = re.compile(
    r"-U\w+|-?-use_fast_math|-?-(?:ftz|prec-div|prec-sqrt|fmad|maxrregcount)=\w+|-?-restrict"
    r"|-?-extra-device-vectorization"
)
_MISSING = re.compile(r'catastrophic error: cannot open source file "([^"\n]+)"')
_OF_ASSEMBLER = re.compile(r"^ptxas (?:error|fatal)", re.MULTILINE)
_OF_FRONT_END = re.compile(r"errors? detected in the compilation of", re.MULTILINE)
_DEVICE_FILE = ".cu"


class NvrtcWorker:
    """One release of NVRTC with its toolkit's headers."""

    def __init__(self, config: WorkerConfig) -> None:
        self._nvrtc = _Library(config["library"])
        self._headers = [str(folder) for folder in config["includes"]]
        self._projects = projects(config)

    def tolerates(self, error: BaseException) -> bool:
        """No autotuner skips a unit."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        mark("syntax")
        try:
            answer: Reply = getattr(self, "op_" + request["op"])(request, mark)
        except UnitRefused as error:
            write(f"flacheck: {error}\n")
            answer = {"outcome": "raised", "stage": "syntax"}
        return answer

    def op_compile(self, request: Request, mark: Mark) -> Reply:
        """The front end alone where NVRTC can, then everything."""
        until = request["until"]
        text, options = self._unit(request)
        number = request["target"][len("sm") :]
        started = time.process_time()
        quick = [*options, f"--gpu-architecture=compute_{number}"]
        code, log = self._nvrtc.compile(text, request["kernel"]["unit"], [*quick, _SYNTAX_ONLY])
        knows_syntax = code != _INVALID_OPTION
        if knows_syntax and code != _SUCCESS:
            return self._failed(request, log, started)
        if not (knows_syntax and until == "syntax"):
            mark("ptx")
            whole = [*options, f"--gpu-architecture=sm_{number}", "--ptxas-options=-v"]
            if until in ("syntax", "ptx"):
                whole = quick
            code, log = self._nvrtc.compile(text, request["kernel"]["unit"], whole)
            if code != _SUCCESS:
                return self._failed(request, log, started)
        figures = FunctionFigures()
        for line in log.splitlines():
            figures.take(line)
        return {
            "stage": until or "cubin",
            "seconds": time.process_time() - started,
            "resources": figures.resources(),
        }

    def op_preprocess(self, request: Request, mark: Mark) -> Reply:
        """NVRTC gives no preprocessed text away."""
        raise UnitRefused(
            "NVRTC shows no preprocessed text; scan the unit under a toolkit (--toolchain"
            " nvcc==13.0) and take its cell"
        )

    @property
    def _root(self) -> str:
        return str(self._projects[0]["path"])

    def _unit(self, request: Request) -> tuple[str, list[str]]:
        """A unit's text and the options that compile it; UnitRefused for what NVRTC cannot take."""
        kernel, options = request["kernel"], request["options"]
        unit = check_file_name(str(kernel["unit"]))
        if not unit.endswith(_DEVICE_FILE):
            raise UnitRefused(f"the unit {unit} needs a host compiler: NVRTC compiles .cu files")
        os.chdir(self._root)
        beside = os.path.dirname(unit) or "."
        folders = [beside, *map(str, kernel.get("includes", ()))]
        folders += [*map(str, self._projects[0].get("includes", ())), *self._headers]
        headers = [*self._projects[0].get("headers", ()), *self._headers]
        check_includes(unit, folders, [self._root, *headers], self._headers)
        flags = [f"-std={options['std']}"]
        flags += [check_flag(flag) for flag in kernel.get("flags", ()) if _TAKEN.fullmatch(flag)]
        launch = request["launch"] or {"args": {}}
        flags += [define(name, value) for name, value in launch["args"].items()]
        flags += [f"-I{check_file_name(folder)}" for folder in folders]
        with open(unit, encoding="utf-8-sig", errors="replace") as file:
            return file.read(), flags

    def _failed(self, request: Request, log: str, started: float) -> Reply:
        missing = _MISSING.search(log)
        if missing is not None and not self._is_of_project(missing[1]):
            raise UnitRefused(
                f"the unit needs the header {missing[1]}, which NVRTC does not bring: it compiles "
                "code of the device alone"
            )
        stage = "ptx"
        if _OF_FRONT_END.search(log):
            stage = "syntax"
        elif _OF_ASSEMBLER.search(log):
            stage = "cubin"
        write(log)
        seconds = time.process_time() - started
        return {"outcome": "raised", "stage": stage, "seconds": seconds}

    def _is_of_project(self, header: str) -> bool:
        """Whether a header that was not found is likely the project's own, by its first folder."""
        first = header.replace("\\", "/").partition("/")[0]
        return "/" in header and os.path.isdir(os.path.join(self._root, first))


# The name under which the server looks for a module's worker.
Worker = NvrtcWorker


class _Library:
    """libnvrtc, by the few functions that a compile takes (nvrtc.h)."""

    def __init__(self, path: str) -> None:
        self._calls = ctypes.CDLL(path)

    def compile(self, text: str, name: str, options: Sequence[str]) -> tuple[int, str]:
        """What NVRTC returns for a program, and its log."""
        program = ctypes.c_void_p()
        made = self._calls.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), name.encode(), 0, None, None
        )
        if made != _SUCCESS:
            return int(made), f"nvrtcCreateProgram returned {made}\n"
        given: Any = (ctypes.c_char_p * len(options))(*(each.encode() for each in options))
        code = self._calls.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        self._calls.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._calls.nvrtcGetProgramLog(program, log)
        self._calls.nvrtcDestroyProgram(ctypes.byref(program))
        said = log.value.decode(errors="replace")
        if code != _SUCCESS and not said.strip():
            said = f"nvrtcCompileProgram returned {code}\n"
        return int(code), said
