"""Registers, stack and spills of a finished compile, as the assembler says them.

Every release runs `ptxas -v` and throws the log of a success away; reading it first costs nothing.
Where a release hides it, `cuobjdump -res-usage` gives all but the spills.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile

_REGISTERS = re.compile(r"Used (\d+) registers")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
_AMD = {
    "registers": re.compile(r"\.vgpr_count:\s+(\d+)"),
    "stack": re.compile(r"\.private_segment_fixed_size:\s+(\d+)"),
    "spills": re.compile(r"\.vgpr_spill_count:\s+(\d+)"),
}


class Assembler:
    """Listens to the assembler's runs in this process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._said = ""
        self._run = subprocess.run

    def listen(self) -> None:
        subprocess.run = self._listening

    def _listening(self, *args, **kwargs):
        result = self._run(*args, **kwargs)
        log = getattr(kwargs.get("stderr"), "name", None)
        if isinstance(log, str) and os.path.exists(log):
            with open(log) as file:
                self._said = file.read()
        return result

    def forget(self) -> None:
        self._said = ""

    def usage(self, compiled) -> dict:
        """`registers` a thread, `stack` and `spills` in bytes a thread; what is not said is absent."""
        if "amdgcn" in compiled.asm:
            text = compiled.asm["amdgcn"]
            return {
                name: int(m[1]) for name, pattern in _AMD.items() if (m := pattern.search(text))
            }
        registers, frame = _REGISTERS.search(self._said), _FRAME.search(self._said)
        if registers and frame:
            return {"registers": int(registers[1]), "stack": int(frame[1]), "spills": int(frame[2])}
        return self.dumped(compiled.asm["cubin"])

    def dumped(self, cubin: bytes) -> dict:
        """What `cuobjdump -res-usage` says of a cubin."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            command = [os.path.join(self._folder, "cuobjdump"), "-res-usage", file.name]
            said = self._run(command, capture_output=True, text=True).stdout
        usage = _USAGE.search(said)
        return {"registers": int(usage[1]), "stack": int(usage[2])} if usage else {}
