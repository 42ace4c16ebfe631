"""Registers, stack and spills of a finished compile, from the assembler's log.

Every release runs `ptxas -v` and deletes the log of a success, so reading the log before that costs
nothing. Where a release hides the log, `cuobjdump -res-usage` gives all figures but the spills.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from typing import Any

_REGISTERS = re.compile(r"Used (\d+) registers")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_ERROR = re.compile(r"\b(?:error|fatal)\s*:")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
# AMD's compiler writes the same figures into its assembly text.
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s+(\d+)"),
    "stack": re.compile(r"\.private_segment_fixed_size:\s+(\d+)"),
    "spills": re.compile(r"\.vgpr_spill_count:\s+(\d+)"),
}


class Assembler:
    """A reader of the assembler's logs in this process; `folder` holds the compiler's binaries."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._log = ""
        self._run = subprocess.run

    def listen(self) -> None:
        """Read each log that an assembler writes, before the release deletes it."""
        # With setattr, because mypy accepts no other function in place of one with overloads.
        setattr(subprocess, "run", self._run_and_read)  # noqa: B010

    def _run_and_read(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("shell", False):
            # 3.0.0 and 3.1.0 need a shell for `ptxas … 2> FILE` alone, and a worker has none.
            command, _, file_name = args[0].partition(" 2> ")
            with open(file_name, "w") as errors:
                return self._run(shlex.split(command), stderr=errors, **kwargs)
        result = self._run(*args, **kwargs)
        log = getattr(kwargs.get("stderr"), "name", None)
        if isinstance(log, str) and os.path.exists(log):
            with open(log) as file:
                self._log = file.read()
            if result.returncode == 0 and _ERROR.search(self._log):
                # The release deletes the log of a success, and the server looks for errors in its
                # own log.
                os.write(2, self._log.encode())
        return result

    def forget(self) -> None:
        """Drop the log of the previous compile."""
        self._log = ""

    def usage(self, compiled_kernel: Any) -> dict[str, int]:
        """Return `registers` a thread, and `stack` and `spills` in bytes a thread, if available."""
        if "amdgcn" in compiled_kernel.asm:
            text = compiled_kernel.asm["amdgcn"]
            figures = {}
            for name, pattern in _AMD.items():
                match = pattern.search(text)
                if match:
                    figures[name] = int(match[1])
            return figures
        registers, frame = _REGISTERS.search(self._log), _FRAME.search(self._log)
        if registers and frame:
            return {"registers": int(registers[1]), "stack": int(frame[1]), "spills": int(frame[2])}
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(compiled_kernel.asm["cubin"])
            file.flush()
            command = [os.path.join(self._folder, "cuobjdump"), "-res-usage", file.name]
            output = self._run(command, capture_output=True, text=True).stdout
        usage = _USAGE.search(output)
        if usage is None:
            return {}
        return {"registers": int(usage[1]), "stack": int(usage[2])}
