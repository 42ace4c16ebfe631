"""A driver of NVRTC for one CUDA C++ translation unit at a time.

NVRTC compiles code for the device only. The library runs in the worker's own process, like Triton:
a unit that crashes it ends the worker, and the server reports the end.
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
from .cuda_standard_headers import find_library_error, write_stand_ins
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
# Ends after the front end; NVRTC supports it from 12.4 on.
_SYNTAX_ONLY = "-fdevice-syntax-only"
# Flags of nvcc that NVRTC also accepts. All others concern the host or nvcc itself.
_ACCEPTED_FLAG = re.compile(
    r"-U\w+|-?-use_fast_math|-?-(?:ftz|prec-div|prec-sqrt|fmad|maxrregcount)=\w+|-?-restrict"
    r"|-?-extra-device-vectorization"
)
_MISSING = re.compile(r'catastrophic error: cannot open source file "([^"\n]+)"')
_ASSEMBLER_ERROR = re.compile(r"^ptxas (?:error|fatal)", re.MULTILINE)
_FRONT_END_ERROR = re.compile(r"errors? detected in the compilation of", re.MULTILINE)
_DEVICE_FILE = ".cu"


class NvrtcWorker:
    """One release of NVRTC with its toolkit's headers."""

    def __init__(self, config: WorkerConfig) -> None:
        self._nvrtc = NvrtcLibrary(config["library"])
        self._headers = [str(folder) for folder in config["includes"]]
        self._headers.append(write_stand_ins(config["scratch"], self._headers))
        self._projects = projects(config)

    def tolerates(self, error: BaseException) -> bool:
        """Return False: no autotuner skips a unit."""
        return False

    def run(self, request: Request, mark: Mark) -> Reply:
        mark("syntax")
        try:
            operation = getattr(self, "op_" + request["op"])
            answer: Reply = operation(request, mark)
        except UnitRefused as error:
            write(f"flacheck: {error}\n")
            answer = {"outcome": "raised", "stage": "syntax"}
        return answer

    def op_compile(self, request: Request, mark: Mark) -> Reply:
        """Run the front end alone if NVRTC supports that, then the whole compile."""
        until = request["until"]
        text, options = self._unit(request)
        number = request["target"][len("sm") :]
        start = time.process_time()
        quick = [*options, f"--gpu-architecture=compute_{number}"]
        unit = request["kernel"]["unit"]
        code, log = self._nvrtc.compile(text, unit, [*quick, _SYNTAX_ONLY])
        has_syntax_only = code != _INVALID_OPTION
        if has_syntax_only and code != _SUCCESS:
            return self._failure(request, log, start)
        if not (has_syntax_only and until == "syntax"):
            mark("ptx")
            whole = [*options, f"--gpu-architecture=sm_{number}", "--ptxas-options=-v"]
            if until in ("syntax", "ptx"):
                whole = quick
            code, log = self._nvrtc.compile(text, unit, whole)
            if code != _SUCCESS:
                return self._failure(request, log, start)
        figures = FunctionFigures()
        for line in log.splitlines():
            figures.take(line)
        return {
            "stage": until or "cubin",
            "seconds": time.process_time() - start,
            "resources": figures.resources(),
        }

    def op_preprocess(self, request: Request, mark: Mark) -> Reply:
        """Refuse: NVRTC does not return the preprocessed text."""
        raise UnitRefused(
            "NVRTC shows no preprocessed text; scan the unit under a toolkit (--toolchain"
            " nvcc==13.0) and take its cell"
        )

    @property
    def _root(self) -> str:
        return str(self._projects[0]["path"])

    def _unit(self, request: Request) -> tuple[str, list[str]]:
        """Return a unit's text and its compile options, or raise UnitRefused."""
        kernel, options = request["kernel"], request["options"]
        unit = check_file_name(str(kernel["unit"]))
        if not unit.endswith(_DEVICE_FILE):
            raise UnitRefused(f"the unit {unit} needs a host compiler: NVRTC compiles .cu files")
        os.chdir(self._root)
        beside = os.path.dirname(unit) or "."
        project = self._projects[0]
        folders = [beside]
        folders += map(str, kernel.get("includes", ()))
        folders += map(str, project.get("includes", ()))
        folders += self._headers
        readable = [self._root]
        readable += project.get("headers", ())
        readable += self._headers
        check_includes(unit, folders, readable, self._headers)
        flags = [f"-std={options['std']}"]
        for flag in kernel.get("flags", ()):
            if _ACCEPTED_FLAG.fullmatch(flag):
                flags.append(check_flag(flag))
        launch = request["launch"] or {"args": {}}
        for name, value in launch["args"].items():
            flags.append(define(name, value))
        for folder in folders:
            flags.append(f"-I{check_file_name(folder)}")
        with open(unit, encoding="utf-8-sig", errors="replace") as file:
            return file.read(), flags

    def _failure(self, request: Request, log: str, start: float) -> Reply:
        missing = _MISSING.search(log)
        if missing is not None and not self._is_of_project(missing[1]):
            raise UnitRefused(
                f"the unit needs the header {missing[1]}, which NVRTC does not bring: it compiles "
                "code of the device alone"
            )
        library_error = find_library_error(log)
        if library_error is not None:
            raise UnitRefused(
                f"the unit needs more of the C++ standard library than NVRTC has: {library_error}"
            )
        stage = "ptx"
        if _FRONT_END_ERROR.search(log):
            stage = "syntax"
        elif _ASSEMBLER_ERROR.search(log):
            stage = "cubin"
        write(log)
        seconds = time.process_time() - start
        return {"outcome": "raised", "stage": stage, "seconds": seconds}

    def _is_of_project(self, header: str) -> bool:
        """Return True if a missing header is likely the project's own, by its first folder."""
        first = header.replace("\\", "/").partition("/")[0]
        folder = os.path.join(self._root, first)
        return "/" in header and os.path.isdir(folder)


# The name under which the server looks for a module's worker.
Worker = NvrtcWorker


class NvrtcLibrary:
    """libnvrtc, with the few functions that a compile needs (nvrtc.h)."""

    def __init__(self, path: str) -> None:
        self._calls = ctypes.CDLL(path)

    def compile(self, text: str, name: str, options: Sequence[str]) -> tuple[int, str]:
        """Return NVRTC's result code for a program, and its log."""
        program = ctypes.c_void_p()
        create_code = self._calls.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), name.encode(), 0, None, None
        )
        if create_code != _SUCCESS:
            return int(create_code), f"nvrtcCreateProgram returned {create_code}\n"
        texts = [option.encode() for option in options]
        array_type: Any = ctypes.c_char_p * len(texts)
        code = self._calls.nvrtcCompileProgram(program, len(texts), array_type(*texts))
        size = ctypes.c_size_t()
        self._calls.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._calls.nvrtcGetProgramLog(program, log)
        self._calls.nvrtcDestroyProgram(ctypes.byref(program))
        log_text = log.value.decode(errors="replace")
        if code != _SUCCESS and not log_text.strip():
            log_text = f"nvrtcCompileProgram returned {code}\n"
        return int(code), log_text
