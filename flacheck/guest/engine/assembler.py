"""Registers, stack and spills of a finished compile, as the assembler says them. Every release runs
`ptxas -v` and throws the log of a success away; reading it first costs nothing. Where a release
hides it, `cuobjdump -res-usage` gives all but the spills."""

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
# AMD's compiler writes the same figures into the text that it assembles.
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s+(\d+)"),
    "stack": re.compile(r"\.private_segment_fixed_size:\s+(\d+)"),
    "spills": re.compile(r"\.vgpr_spill_count:\s+(\d+)"),
}


class Assembler:
    """Listens to the assembler's runs in this process; `folder` holds the compiler's binaries."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._said = ""
        self._run = subprocess.run

    def listen(self) -> None:
        """From now on read what an assembler writes into its log before the release deletes it."""
        # By setattr, for mypy takes no other function in the place of one with overloads.
        setattr(subprocess, "run", self._listening)  # noqa: B010

    def _listening(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("shell", False):
            # 3.0.0 and 3.1.0 need a shell for `ptxas … 2> FILE` alone, and a worker has none.
            command, _, file_name = args[0].partition(" 2> ")
            with open(file_name, "w") as errors:
                return self._run(shlex.split(command), stderr=errors, **kwargs)
        result = self._run(*args, **kwargs)
        log = getattr(kwargs.get("stderr"), "name", None)
        if isinstance(log, str) and os.path.exists(log):
            with open(log) as file:
                self._said = file.read()
            if result.returncode == 0 and _ERROR.search(self._said):
                # The release throws the log of a success away; the server looks for errors in its.
                os.write(2, self._said.encode())
        return result

    def forget(self) -> None:
        """A compile begins: what was said of another one is not said of this one."""
        self._said = ""

    def usage(self, compiled: Any) -> dict[str, int]:
        """`registers` a thread, `stack` and `spills` in bytes a thread, where they are known."""
        if "amdgcn" in compiled.asm:
            text = compiled.asm["amdgcn"]
            matches = {name: pattern.search(text) for name, pattern in _AMD.items()}
            return {name: int(match[1]) for name, match in matches.items() if match}
        registers, frame = _REGISTERS.search(self._said), _FRAME.search(self._said)
        if registers and frame:
            return {"registers": int(registers[1]), "stack": int(frame[1]), "spills": int(frame[2])}
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(compiled.asm["cubin"])
            file.flush()
            command = [os.path.join(self._folder, "cuobjdump"), "-res-usage", file.name]
            said = self._run(command, capture_output=True, text=True).stdout
        usage = _USAGE.search(said)
        if usage is None:
            return {}
        return {"registers": int(usage[1]), "stack": int(usage[2])}
