"""The baseline.

One process that only calls `triton.compile`, cell after cell. Run with a Triton on its path.

usage: plain.py all CELLS.json      compile every cell; prints {"median": seconds of processor time}
       plain.py crash CELLS.json    each cell in a fork of a warm process, up to its crash; prints
       {"cpu": seconds}
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import resource
import statistics
import sys
import time

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.driver import driver

NEW = "constexprs" in inspect.signature(ASTSource.__init__).parameters


class _Driver:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_benchmarker(self):
        return None

    def __getattr__(self, name):
        return lambda *args, **kwargs: 0


MODULES: dict[str, object] = {}


def kernel(origin, corpus):
    modules = MODULES
    if origin["corpus"] not in modules:
        path = os.path.join(corpus, origin["corpus"] + ".py")
        spec = importlib.util.spec_from_file_location("corpus_" + origin["corpus"], path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[origin["corpus"]] = module
    function = getattr(modules[origin["corpus"]], origin["name"])
    while not hasattr(function, "arg_names") or not hasattr(function, "src"):
        function = function.fn
    return function


def source(cell, corpus):
    function = kernel(cell["kernel"], corpus)
    signature, constants, alignments = {}, {}, []
    for index, name in enumerate(function.arg_names):
        spec = cell["launch"]["args"][name]
        if spec is None or "constexpr" in spec:
            signature[name], constants[name] = "constexpr", spec and spec["constexpr"]
            continue
        signature[name] = (
            "*" + spec["dtype"] if "dtype" in spec else "i32" if "int" in spec else "fp32"
        )
        if "dtype" in spec or ("int" in spec and spec["int"] % 16 == 0):
            alignments.append(index)
    if NEW:
        return ASTSource(
            function, signature, constants, {(i,): [["tt.divisibility", 16]] for i in alignments}
        )
    from triton.backends.compiler import AttrsDescriptor

    types = {name: kind for name, kind in signature.items() if kind != "constexpr"}
    return ASTSource(
        function, types, constants, AttrsDescriptor.from_hints(dict.fromkeys(alignments, 16))
    )


def compile_one(cell, corpus):
    target = GPUTarget("cuda", cell["card"]["arch"], 32)
    triton.compile(source(cell, corpus), target=target, options=cell["options"])


def cpu(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def main():
    mode, file, corpus = sys.argv[1:4]
    driver.set_active(_Driver())
    with open(file) as stream:
        cells = json.load(stream)
    if mode == "crash":
        compile_one(cells[0], corpus)
        total = 0.0
        for cell in cells[1:]:
            before = cpu(resource.RUSAGE_CHILDREN)
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                compile_one(cell, corpus)
                os._exit(0)
            assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "a cell that was to crash did not"
            total += cpu(resource.RUSAGE_CHILDREN) - before
        print(json.dumps({"cpu": total}), file=sys.stderr)
        return
    seconds = []
    for cell in cells:
        start = time.process_time() + cpu(resource.RUSAGE_CHILDREN)
        compile_one(cell, corpus)
        seconds.append(time.process_time() + cpu(resource.RUSAGE_CHILDREN) - start)
    print(json.dumps({"median": statistics.median(seconds)}), file=sys.stderr)


main()
