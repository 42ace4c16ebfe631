"""Build files that were changed in one to three places, always the same ones for a seed."""

from __future__ import annotations

import ast
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
SETUP = """
import glob, os, sys
import os.path as osp
from pathlib import Path
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CppExtension, CUDA_HOME

this_dir = os.path.dirname(os.path.abspath(__file__))
WITH_SYMBOLS = os.getenv("WITH_SYMBOLS", "0") == "1"
SIZES = [64, 128]


def threads(args):
    return args + ["--threads", os.getenv("NVCC_THREADS") or "4"]


def get_extensions():
    extensions = []
    for main, suffix in [("a", "cpu"), ("b", "cuda")]:
        define_macros = [("WITH_PYTHON", None), ("LEVEL", 2)]
        extra = {"cxx": ["-O3"]}
        if suffix == "cuda":
            flags = os.getenv("NVCC_FLAGS", "")
            flags = [] if flags == "" else flags.split(" ")
            flags += ["-O3", "-std=c++20", f"-DSIZE={SIZES[0]}"]
            extra["nvcc"] = threads(flags)
            if CUDA_HOME is None:
                extra["nvcc"] += ["-DHOMELESS"]
        sources = [osp.join("csrc", f"{main}_{size}.cu") for size in SIZES if size != 32]
        sources += glob.glob(osp.join("csrc", "*.cpp"))
        kind = CppExtension if suffix == "cpu" else CUDAExtension
        extensions.append(
            kind(
                f"pack._{main}",
                sources,
                include_dirs=[Path(this_dir) / "csrc", "csrc"],
                define_macros=define_macros,
                extra_compile_args=extra,
            )
        )
    return extensions


setup(name="pack", ext_modules=get_extensions(), cmdclass={"build_ext": BuildExtension})
"""
# The same with all arguments in place.
PLAIN = """
import os
from setuptools import Extension, setup
from torch.utils.cpp_extension import CUDAExtension

HIP_BUILD = False
flags = []
if HIP_BUILD:
    flags.append("-DONLY_AMD")
else:
    flags.extend(["-gencode", "arch=compute_90a,code=sm_90a"])
setup(
    ext_modules=[
        CUDAExtension(
            name="pack.cuda",
            sources=["csrc/bind.cpp"] + [f"csrc/{name}_{size}.cu" for name in "ab" for size in (64, 128)],
            extra_compile_args={
                "cxx": ["-O2"],
                "nvcc": ["-O3", "-std=c++20", "-DSPLIT=4"] + (["-DX"] if os.environ.get("X") else []) + flags,
            },
            include_dirs=["csrc", *[os.path.join("/opt", "include")]],
            define_macros=[("WITH_FP8", None), ("LEVEL", "2")],
        ),
        Extension("pack.host", ["csrc/bind.cpp"], extra_compile_args=["-O3", "-fopenmp"]),
    ],
)
"""
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
_ODD_EXPRESSIONS = (
    *("f()", "lambda: f", "None", "...", "b'x'", "1j", "10**10**10", "[[]] * 10**9", "'x' * 10**9"),
    *(
        "{[]: 1}",
        "{**f()}",
        "{'nvcc': f()}",
        "{'nvcc': 'x'}",
        "{'nvcc': None}",
        "{f(): 1}",
        "{1: {2: 3}}",
    ),
    *(
        "[*f()]",
        "f(*f(), **f())",
        "x[0]",
        "x[::0]",
        "'a'[5]",
        "[][0]",
        "{}['a']",
        "1/0",
        "1 << 10**9",
    ),
    *("[x for x in x]", "[x for x in range(10**9)]", "(yield)", "(y := f())", "not f", "-f", "~[]"),
    *(
        "sorted([1, 'a'])",
        "max([])",
        "'{0.x}'.format(1)",
        "'%d' % 'a'",
        "[1] in 3",
        "{} < {}",
        "-'a'",
    ),
    *(
        "glob.glob('/etc/*')",
        "glob.glob('')",
        "Path('\\0')",
        "[()] + [({},)]",
        "float('nan')",
        "True",
    ),
    *(
        "get_extensions()",
        "threads(threads)",
        "globals()",
        "__import__('os')",
        "exec('x')",
        "[Path]",
    ),
    *("os.environ", "os.environ['X']", "os.getenv()", "''.join([1])", "'a'.split('')", "dict([1])"),
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
    # Written with escapes above, so that they can also stand in a source.
    return chance.choice(_ODD_TEXTS).encode().decode("unicode_escape")


def _text(chance: random.Random, text: str) -> str:
    """A text with a piece cut out, doubled, moved or replaced."""
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.randrange(60))
    pieces = ("", text[start:end] * 2, _odd_text(chance), chance.choice(_ODD_LINES))
    elsewhere = chance.randrange(len(text) + 1)
    piece = chance.choice((*pieces, text[elsewhere : elsewhere + 40]))
    return text[:start] + piece + text[end:]


def _is_value(node: ast.AST) -> bool:
    """Return True for an expression that is read, not assigned to."""
    return isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store)


class _Swap(ast.NodeTransformer):
    """Puts another expression in the place of the expression with a number."""

    def __init__(self, place: int, other: ast.expr) -> None:
        self._left = place
        self._other = other

    def visit(self, node: ast.AST) -> Any:
        if _is_value(node):
            self._left -= 1
            if self._left == -1:
                return self._other
        return self.generic_visit(node)


def _expression(chance: random.Random, tree: ast.Module) -> ast.Module:
    """A module with one expression replaced: by an odd one, or by another of its own."""
    own = [node for node in ast.walk(tree) if _is_value(node)]
    other = copy.deepcopy(chance.choice(own))
    if chance.random() < 0.7:
        other = ast.parse(chance.choice(_ODD_EXPRESSIONS), mode="eval").body
    altered = _Swap(chance.randrange(len(own)), other).visit(copy.deepcopy(tree))
    assert isinstance(altered, ast.Module)
    return altered


def _statements(chance: random.Random, tree: ast.Module) -> ast.Module:
    """A module with a statement of one of its bodies removed, doubled or exchanged."""
    other = copy.deepcopy(tree)
    bodies = [node.body for node in ast.walk(other) if isinstance(getattr(node, "body", 0), list)]
    body = chance.choice(bodies)
    place = chance.randrange(len(body))
    how = chance.randrange(3)
    if how == 0 and len(body) > 1:
        del body[place]
    elif how == 1:
        body.insert(place, copy.deepcopy(chance.choice(body)))
    else:
        chance.shuffle(body)
    return other


def _setup(chance: random.Random) -> str:
    script = chance.choice((SETUP, PLAIN))
    if chance.random() < 0.15:
        return _text(chance, script)
    tree = ast.parse(script)
    for _ in range(chance.randint(2, 6)):
        tree = chance.choice((_expression, _expression, _statements))(chance, tree)
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except (ValueError, AttributeError):
        return _text(chance, script)


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
    odd = [
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
    *((("setup.py", _setup),) * 3),
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
