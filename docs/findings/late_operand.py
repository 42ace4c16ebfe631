"""Fails: 3.9.0; compiles: 3.6.0, 3.8.0."""

import pathlib
import re
import subprocess
import tempfile

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def kernel(q, k, v, o, T):
    rows = tl.program_id(0) * 64 + tl.arange(0, 64)
    columns = tl.arange(0, 64)
    mask = (rows < T)[:, None]
    place = rows[:, None] * 64 + columns[None, :]
    queries, keys = tl.load(q + place, mask=mask), tl.load(k + place, mask=mask)
    scores = tl.dot(queries, tl.trans(keys))
    scores = tl.where(columns[:, None] >= columns[None, :], scores, 0).to(tl.bfloat16)
    for block in range(4):
        place = rows[:, None] * 256 + block * 64 + columns[None, :]
        values = tl.load(v + place, mask=mask)
        tl.store(o + place, tl.dot(scores, values).to(tl.bfloat16), mask=mask)


pointers = dict.fromkeys("qkvo", "*bf16")
attributes = {(index,): [["tt.divisibility", 16]] for index in range(4)}
source = ASTSource(kernel, {**pointers, "T": "i32"}, {}, attributes)
binary = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
tools = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
    file.write(binary)
    file.flush()
    command = [tools / "nvdisasm", "-c", file.name]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout

# The registers that an instruction writes begin with its first operand.
WIDTHS = {"HGMMA": 32, ".128": 4, "88.4": 4, ".64": 2, ".WIDE": 2, "CS2R": 2}
written = set()
for line in code.splitlines():
    instruction = re.sub(r"@\S+", "", line.partition("*/")[2]).strip()
    name, _, operands = instruction.partition(" ")
    dot = re.match(r"R\d+, R(\d+), gdesc", operands) if name.startswith("HGMMA") else None
    for register in range(int(dot[1]), int(dot[1]) + 4) if dot else ():
        if register not in written:
            raise SystemExit(f"R{register} is read before it is written: {instruction}")
    first = re.match(r"R(\d+)", operands)
    if first and not name.startswith("ST"):
        count = next((WIDTHS[part] for part in WIDTHS if part in name), 1)
        written |= set(range(int(first[1]), int(first[1]) + count))
