"""Build files that were changed in one to three places, always the same ones for a seed."""

from __future__ import annotations

import copy
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flacheck.errors import FlacheckError
from flacheck.model import digest
from flacheck.pipeline import build_units
from flacheck.source import builds
from flacheck.source.packages.package import Package

# Seconds of processor time for one build file.
_LONGEST = 2
NINJA = """
ninja_required_version = 1.3
nvcc = /usr/local/cuda/bin/nvcc
flags = -DTORCH_EXTENSION_NAME=attn -Icsrc -isystem /usr/include/torch
post = -D__CUDA_NO_HALF_OPERATORS__ --expt-relaxed-constexpr -std=c++17 $
  -gencode=arch=compute_90,code=sm_90
rule cuda_compile
  depfile = $out.d
  command = $nvcc --dependency-output $out.d $flags -c $in -o $out $post

build fwd.o: cuda_compile csrc/a_64.cu
build bwd.o: cuda_compile csrc/a_128.cu | csrc/common.h
  post = -DBACKWARD=1 ${flags}
build all: phony fwd.o
"""
DATABASE: list[dict[str, Any]] = [
    {"directory": ".", "command": "nvcc -DD=64 -Icsrc -c csrc/a_64.cu -o a.o", "file": "a.cu"},
    {"directory": "csrc", "arguments": ["nvcc", "-I.", "-std=c++20", "-c", "b_64.cu"]},
]
_ODD_TEXTS = (
    *(
        "",
        " ",
        "\\0",
        "\\ud800",
        "/etc",
        "..",
        "../..",
        "-",
        "--",
        "-I",
        "-D",
        "-D=",
        "**",
        "*",
        "[",
        "~",
    ),
    *(
        "-gencode",
        "{",
        "%s",
        "a" * 3_000,
        "*a" * 300,
        "**/" * 40,
        "\\u202e",
        "-std",
        "-std=",
        "=",
        "@x",
    ),
)
_ODD_LINES = (
    *(
        "a = $a",
        "a = $a$a$a",
        "  a = $b",
        "  b = $a",
        "rule ",
        "rule",
        "build ",
        "build",
        "build :",
    ),
    *(
        "build x: ",
        "build $",
        "  command = $in $in",
        "${",
        "$",
        "=",
        "subninja x",
        "include /dev/zero",
    ),
    *(
        "rule cuda_compile\n  command = $command$command",
        "  command = '",
        "pool x",
        "default",
        "\0",
    ),
)


def _odd_text(chance: random.Random) -> str:
    return chance.choice(_ODD_TEXTS).encode().decode("unicode_escape")


def _text(chance: random.Random, text: str) -> str:
    """A text with a piece cut out, doubled, moved or replaced."""
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.randrange(60))
    pieces = ("", text[start:end] * 2, _odd_text(chance), chance.choice(_ODD_LINES))
    elsewhere = chance.randrange(len(text) + 1)
    piece = chance.choice((*pieces, text[elsewhere : elsewhere + 40]))
    return text[:start] + piece + text[end:]


def _ninja(chance: random.Random) -> str:
    text = NINJA
    for _ in range(chance.randint(1, 3)):
        if chance.random() < 0.5:
            lines = text.split("\n")
            lines.insert(chance.randrange(len(lines)), chance.choice(_ODD_LINES))
            text = "\n".join(lines)
        else:
            text = _text(chance, text)
    return text


def _database(chance: random.Random) -> str:
    entries = copy.deepcopy(DATABASE)
    odd: list[Any] = [
        None,
        3,
        1e308,
        [],
        {},
        [[1]],
        True,
        "'",
        '"',
        _odd_text(chance),
        "nvcc -c " + _odd_text(chance),
    ]
    entry = chance.choice(entries)
    key = chance.choice(list(entry))
    how = chance.randrange(4)
    if how == 0:
        del entry[key]
    elif how == 1 and isinstance(entry[key], list):
        entry[key].insert(chance.randrange(len(entry[key])), chance.choice(odd))
    elif how == 2:
        return _text(chance, json.dumps(entries))
    else:
        entry[key] = chance.choice(odd)
    return json.dumps(entries)


_KINDS: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("build.ninja", _ninja),
    ("compile_commands.json", _database),
)


def mutations(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Names of build files with their changed texts."""
    chance = random.Random(seed)
    for number in range(count):
        name, change = _KINDS[number % len(_KINDS)]
        yield name, change(chance)


def project(folder: Path) -> Path:
    """The project that the unchanged build files compile, without a build file."""
    (folder / "csrc").mkdir(parents=True)
    for name in ("a_64.cu", "a_128.cu", "b_64.cu", "b_128.cu", "bind.cpp"):
        (folder / "csrc" / name).write_text("// a unit\n")
    return folder


def read_all(folder: Path, count: int, seed: int) -> Counter[str]:
    """Read changed build files as a scan does, and count how it ends: `read`, `refused`, or what
    went wrong."""
    root = project(folder)
    package = Package("pack", "1", str(root), "digest", {})
    outcomes = Counter[str]()
    for name, text in mutations(count, seed):
        file = root / name
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        start = time.process_time()
        try:
            for source in build_units.sources_of(package, builds.find(root)):
                digest([source.kernel.to_json(), [each.to_json() for each in source.launches]])
            outcomes["read"] += 1
        except FlacheckError:
            outcomes["refused"] += 1
        except Exception as error:
            outcomes[f"{name}: {type(error).__name__}: {str(error)[:200]}"] += 1
        if time.process_time() - start > _LONGEST:
            outcomes[f"{name}: more than {_LONGEST} s"] += 1
        file.unlink()
    return outcomes
