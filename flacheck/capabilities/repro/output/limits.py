"""The checks of a script for limits of the GPU.

A compile that ends well prints no error if the kernel requires more than the GPU has, so the script
compares the figures itself.
"""

from flacheck.model import Record
from flacheck.tables.targets import Target

_SHARED = "used = compiled.metadata.shared\n"
_TENSOR_MEMORY = "used = compiled.metadata.tmem_size\n"
_THREADS = "used = compiled.metadata.num_warps * {warp_size}\n"
# The compiler's own tool reads the registers of a thread; the GPU allocates them in units of 8.
_REGISTERS = {
    "cuda": r"""import re
import tempfile

with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
    file.write(compiled.asm["cubin"])
    file.flush()
    binaries = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
    command = [os.path.join(binaries, "cuobjdump"), "-res-usage", file.name]
    usage = subprocess.run(command, capture_output=True, text=True).stdout
registers = int(re.search(r"REG:(\d+)", usage)[1])
""",
    "hip": r"""import re

registers = int(re.search(r"\.vgpr_count:\s+(\d+)", compiled.asm["amdgcn"])[1])
""",
}
_IN_UNITS = "used = (registers + 7) // 8 * 8 * compiled.metadata.num_warps * {warp_size}\n"


def check(record: Record, target: Target, words: str) -> str:
    """Return the code with which a script checks a finished compile; empty without a limit.

    It prints `words` with the figure and the limit if the kernel is over the limit of the GPU.
    """
    match record.code:
        case "FC501":
            figures, limit = _SHARED, target.shared_limit
        case "FC502":
            figures, limit = _THREADS.format(warp_size=target.warp_size), target.max_threads
        case "FC503":
            in_units = _IN_UNITS.format(warp_size=target.warp_size)
            figures, limit = _REGISTERS[target.backend] + in_units, target.registers
        case "FC504":
            figures, limit = _TENSOR_MEMORY, target.tensor_memory
        case _:
            return ""
    return f'{figures}if used > {limit}:\n    print("{words}", used, "of", {limit})\n'
