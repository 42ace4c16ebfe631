"""A CUDA toolkit that is a script: a comment of the unit decides its output, in nvcc's format."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

_NVCC = """#!{python}
import os, re, resource, signal, sys, time

words = sys.argv[1:]
if "--version" in words:
    print("Cuda compilation tools, release {minor}, V{version}")
    sys.exit()
if "--list-gpu-code" in words:
    print("{codes}")
    sys.exit()
source = next(word for word in words if word.endswith((".cu", ".cpp")))
text = open(source).read()
quick = "-fdevice-syntax-only" in words
print("#$ CICC_PATH=/nowhere", file=sys.stderr)
print("#$ gcc -E -x c++ -o unit.cpp1.ii", file=sys.stderr)
print(f". {{os.path.abspath(source)}}", file=sys.stderr)
for included in re.findall(r"^// includes (.+)$", text, re.MULTILINE):
    print(f".. {{included}}", file=sys.stderr)
print("Multiple include guards may be useful for:", file=sys.stderr)
print("/usr/include/gnu/stubs.h", file=sys.stderr)
defines = {{word[2:].partition("=")[0]: word.partition("=")[2] for word in words if word[:2] == "-D"}}
print('#$ "$CICC_PATH/cicc" unit.cpp1.ii', file=sys.stderr)
for condition, said, code in re.findall(r"^// if (\\S+) says (.+) exit (\\d+)$", text, re.MULTILINE):
    name, _, value = condition.partition("=")
    if defines.get(name) == value:
        print(said.replace("\\\\n", "\\n"), file=sys.stderr)
        sys.exit(int(code))
for read in re.findall(r"^// reads (.+)$", text, re.MULTILINE):
    try:
        said = f"{{read}}:1: Error: no such instruction: `{{open(read).read()}}'"
    except OSError as error:
        said = f"unit.s:85: Error: can't open {{read}} for reading: {{error.strerror}}"
    print(said, file=sys.stderr)
    sys.exit(1)
needs = re.search(r"^// needs (\\d+) MB$", text, re.MULTILINE)
is_short = needs and resource.getrlimit(resource.RLIMIT_AS)[0] < int(needs[1]) << 20
if is_short or "// starves" in text:
    print("cc1plus: out of memory allocating 65536 bytes", file=sys.stderr)
    sys.exit(1)
if "// dies" in text:
    os.kill(os.getpid(), signal.SIGKILL)
if "// waits" in text:
    time.sleep(1.2)
if "// hangs" in text:
    signal.pause()
if "// arguments" in text:
    print("error: " + " ".join(words), file=sys.stderr)
    sys.exit(2)
if quick:
    sys.exit()
print("#$ ptxas -arch=sm_90a unit.ptx", file=sys.stderr)
if "// ptxas" in text:
    print("ptxas error   : Entry function 'k' uses too much shared data (0x50000 bytes, 0x38c00 max)", file=sys.stderr)
    sys.exit(255)
spills = {spills}
for name, registers in (("_Z1kPf", 40), ("_Z1gPf", 96)):
    print(f"ptxas info    : Compiling entry function '{{name}}' for 'sm_90a'", file=sys.stderr)
    print(f"ptxas info    : Function properties for {{name}}", file=sys.stderr)
    print(f"    16 bytes stack frame, {{spills}} bytes spill stores, 8 bytes spill loads", file=sys.stderr)
    print(f"ptxas info    : Used {{registers}} registers, used 1 barriers, 2048 bytes smem", file=sys.stderr)
print("#$ fatbinary -64 unit.cubin", file=sys.stderr)
"""


def toolkit(
    folder: Path,
    version: str = "13.9.7",
    codes: Sequence[str] = ("sm_80", "sm_90"),
    spills: int = 0,
) -> Path:
    """A toolkit's root in a folder."""
    root = folder / f"cuda-{version}"
    for name in ("bin", "nvvm/bin", "include"):
        (root / name).mkdir(parents=True)
    (root / "nvvm" / "bin" / "cicc").write_text("")
    nvcc = root / "bin" / "nvcc"
    minor = version.rpartition(".")[0]
    # That of the base: an environment has a file of its own, which no compiler needs.
    python = Path(sys.executable).resolve()
    values = {"python": python, "version": version, "minor": minor, "spills": spills}
    nvcc.write_text(_NVCC.format(codes=" ".join(codes), **values))
    nvcc.chmod(0o755)
    return root


MISMATCH = (
    'unit.cu(7): error: no suitable user-defined conversion from "Fwd<__nv_fp8_e4m3>::K" to '
    '"Fwd<__nv_fp8_e4m3>::V" exists\\n\\n1 error detected in the compilation of "unit.cu".'
)


def project(folder: Path, **units: str) -> Path:
    """A project whose build compiles these files, `fwd` from the text of `fwd.cu`, once in bf16 and
    once in fp8."""
    root = folder / "project"
    (root / "csrc").mkdir(parents=True)
    entries = []
    for name, text in units.items():
        (root / "csrc" / f"{name}.cu").write_text(text + "\n")
        for element in ("bf16", "fp8"):
            command = f"nvcc -DELEMENT={element} -Icsrc -O3 -arch=sm_90a -c csrc/{name}.cu -o x.o"
            entries.append(f'{{"directory": ".", "command": "{command}"}}')
    (root / "compile_commands.json").write_text(f"[{', '.join(entries)}]")
    return root
