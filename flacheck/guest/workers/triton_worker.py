"""Compiles one cell with the Triton on the path, through the release's own `JITFunction.run`."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
import tempfile
import time
from typing import Any

from ..engine import admission, releases
from ..engine.assembler import Assembler
from ..engine.driver import TargetDriver
from ..engine.loader import Importing, Loader, Turn
from ..engine.messages import CardRow, Kernel, Mark, Reply, Request, WorkerConfig
from . import torch_stub, tuner, values
from .cut import Cutter, passed_functions
from .removed_api import removed_api

# How many compiles share a folder before it is emptied: often enough for a full disk, seldom enough
# to cost nothing.
_SWEEP = 64


class TritonWorker:
    """Made once in the warm process; what it holds is inherited by every worker forked from it. An
    operation `op` of a request is the method `op_…`, called with the kernel."""

    def __init__(self, config: WorkerConfig) -> None:
        self._scratch = config["scratch"]
        self._until: str | None = None
        self._shown: str | None = None
        self._text: str | None = None
        self._metadata: dict[str, Any] = {}
        # No request is being answered yet.
        self._mark: Mark = lambda stage: None
        self._count = 0
        self._driver = TargetDriver()
        turn, importing = _torch(config, self._driver)
        # Triton is imported only now: torch, or what stands for it, must be there first.
        releases.skip_library_hash(config["identity"])
        releases.install_driver(self._driver)
        releases.mark_stages(self._before_stage, self._after_stage)
        releases.watch_front_end(_note_removed)
        tuner.watch()
        self._assembler = Assembler(releases.binary_folder())
        self._assembler.listen()
        self._loader = Loader(config, turn, importing=importing)

    def _before_stage(self, stage: str) -> None:
        # The front end is no stage of a backend: it is done when the first of those begins.
        if self._until == "ast":
            raise releases.StageReached
        self._mark(stage)

    def _after_stage(self, stage: str, result: object, metadata: dict[str, Any]) -> None:
        self._metadata = metadata
        if stage == self._shown:
            self._text = str(result)
        if stage == self._until:
            raise releases.StageReached

    def tolerates(self, error: BaseException) -> bool:
        """What the Autotuner did with the error; where it did not run, what it would do."""
        tolerated: bool = getattr(error, "skipped", isinstance(error, releases.tolerated_errors()))
        return tolerated

    def run(self, request: Request, mark: Mark) -> Reply:
        """Answer a request; its `seconds` are those of the operation, without the import."""
        self._mark, self._until, self._shown = mark, request.get("until"), None
        self._driver.select(request["card"])
        if self._count % _SWEEP == 0:
            # A folder for what Triton caches, emptied now and then; nothing in it is ever read.
            folder = os.path.join(self._scratch, f"cache-{os.getpid()}")
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            os.environ["TRITON_CACHE_DIR"] = tempfile.tempdir = folder
        self._count += 1
        kernel = self._loader.load(request["kernel"], request["card"])
        guard: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._loader.is_admitted(request["kernel"]):
            admission.check_launch(kernel, request)
            guard = releases.without_launches(admission.NotAdmitted("the source launches a kernel"))
        started = time.perf_counter()
        with guard:
            answer: Reply = getattr(self, "op_" + request["op"])(kernel, request)
        answer.setdefault("seconds", time.perf_counter() - started)
        return answer

    def op_compile(self, kernel: Kernel, request: Request) -> Reply:
        """Compile one launch; `resources` of the result, `stage` the last one run."""
        function = releases.unwrap(kernel)
        given = self._arguments(request, function)
        # A kernel may have a parameter of an option's name: then both are one value.
        arguments = {**request["options"], **releases.with_heuristics(kernel, given)}
        self._mark("ast")
        self._assembler.forget()
        try:
            compiled = function.run(grid=None, warmup=True, **arguments)
        except releases.StageReached:
            known = self._metadata
            memory = {"shared": known.get("shared"), "tensor_memory": known.get("tmem_size")}
            return {"stage": self._until, "resources": memory}
        except Exception as error:
            # The front end is not all that reads a kernel's source.
            _note_removed(error)
            raise
        finally:
            releases.forget_compiled(function)
        return {"resources": self._resources(compiled, request["card"])}

    def _arguments(self, request: Request, function: Kernel) -> dict[str, Any]:
        return values.arguments(request["launch"]["args"], function.fn.__globals__)

    def _resources(self, compiled: Any, card: CardRow) -> dict[str, Any]:
        metadata = compiled.metadata
        return {
            "shared": metadata.shared,
            "tensor_memory": getattr(metadata, "tmem_size", None),
            "threads": metadata.num_warps * card["warp_size"],
            **self._assembler.usage(compiled),
        }

    def op_show(self, kernel: Kernel, request: Request) -> Reply:
        """Compile, and give the text that the last stage asked for makes."""
        until = request["until"]
        assert until is not None
        self._shown, self._text = until, None
        answer = self.op_compile(kernel, request)
        answer["facts"] = {until: self._text}
        return answer

    def op_passes(self, kernel: Kernel, request: Request) -> Reply:
        """Compile, and have the compiler print each of its passes with what it is given. Only for a
        worker that does nothing after: the compiler's library reads the variable at any time."""
        os.environ["MLIR_ENABLE_DUMP"] = "1"
        return self.op_compile(kernel, request)

    def op_compile_ir(self, kernel: Kernel, request: Request) -> Reply:
        """Compile a module's text of Triton's own IR, as `triton.compile` takes it."""
        import triton

        path = os.path.join(tempfile.mkdtemp(), releases.unwrap(kernel).fn.__name__ + ".ttir")
        with open(path, "w") as file:
            file.write(request["ir"])
        target = self._driver.get_current_target()
        compiled = triton.compile(path, target=target, options=request["options"])
        return {"resources": self._resources(compiled, request["card"])}

    def op_autotune(self, kernel: Kernel, request: Request) -> Reply:
        """Run the release's own autotuner over the launch, only its timing replaced."""
        self._mark("autotune")
        return tuner.autotune(kernel, request)

    def op_keys(self, kernel: Kernel, request: Request) -> Reply:
        """What the release's own autotuner puts into its key for a launch."""
        self._mark("keys")
        return tuner.keys(kernel, request)

    def op_trial(self, kernel: Kernel, request: Request) -> Reply:
        """Have the release's own autotuner try one configuration."""

        def loaded(compiled: Any) -> dict[str, Any]:
            self._mark("load")
            return self._resources(compiled, request["card"])

        self._mark("ast")
        self._assembler.forget()
        return tuner.attempt(kernel, request, loaded)

    def op_cut(self, kernel: Kernel, request: Request) -> Reply:
        """The kernel's source with all that it uses, and what its heuristics make of the launch."""
        function = releases.unwrap(kernel)
        given: dict[str, Any] = {}
        if request["launch"]:
            given = self._arguments(request, function)
        complete = releases.with_heuristics(kernel, given)
        cut = Cutter().cut(function, passed_functions(function, complete))
        facts = {
            "text": cut.text,
            "reason": cut.reason,
            "qualname": function.fn.__name__,
            "heuristics": {name: complete[name] for name in complete if name not in given},
        }
        return {"stage": "import", "facts": facts}

    def op_import(self, kernel: Kernel, request: Request) -> Reply:
        """The kernel's module was imported: that is all."""
        return {"stage": "import"}

    def op_inspect(self, kernel: Kernel, request: Request) -> Reply:
        """What the kernel's decorators say: arguments, configurations and keys of its autotuner."""
        return {"stage": "import", "facts": tuner.describe(kernel)}


def _note_removed(error: BaseException) -> None:
    api = removed_api(error)
    if api is not None and not hasattr(error, "facts"):
        setattr(error, "facts", {"api": api})  # noqa: B010


# The name under which the server looks for a module's worker.
Worker = TritonWorker


def _torch(config: WorkerConfig, driver: TargetDriver) -> tuple[Turn, Importing]:
    """Have torch itself importable where the config has the folder that it lies in, else its
    stand-in; returns what turns it to another card, and what surrounds the import of a package."""
    if config.get("torch") is None:
        torch_stub.install(driver)
        return torch_stub.turn, contextlib.nullcontext
    sys.path.append(config["torch"])  # behind the compiler: other things lie there too
    from . import torch_cuda

    torch_cuda.leave_functions_uncompiled()
    if "package_card" not in config:
        return torch_cuda.turn, contextlib.nullcontext
    # The config names it: what stands above this room is not imported by it.
    card = importlib.import_module(".." + config["package_card"], __package__).PackageCard()
    return card.turn, card.importing
