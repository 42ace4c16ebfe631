"""Compiles one cell with the Triton on the path, through the release's own `JITFunction.run`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time

from ..engine import releases
from ..engine.assembler import Assembler
from ..engine.driver import Driver
from ..engine.loader import Loader
from . import torch_stub, trial, tune, values
from .cut import Cutter, handed

_SWEEP = 64


class Stopped(Exception):
    """The last stage asked for is done."""


def _torch(folder: str | None, driver: Driver):
    """Torch itself where the folder that it lies in is given, else its stand-in; what turns it to
    another card.
    """
    if folder is None:
        torch_stub.install(driver)
        return torch_stub.turn
    sys.path.append(folder)  # behind the compiler: other things lie there too
    from . import torch_cuda

    torch_cuda.leave_functions_uncompiled()
    return torch_cuda.turn


class Worker:
    """Made once in the warm process; what it holds is inherited by every worker forked from it."""

    def __init__(self, config: dict) -> None:
        self._scratch = config["scratch"]
        self._until: str | None = None
        self._shown: str | None = None
        self._text: str | None = None
        self._metadata: dict = {}
        self._mark = lambda stage: None
        self._count = 0
        self.driver = Driver()
        turn = _torch(config.get("torch"), self.driver)
        import triton.language

        self.language = triton.language
        releases.skip_library_hash(config["identity"])
        releases.install_driver(self.driver)
        releases.mark_stages(self._reached, self._passed)
        trial.watch()
        self.assembler = Assembler(releases.binary_folder())
        self.assembler.listen()
        self.loader = Loader(config.get("packages", {}), config.get("corpus"), self._scratch, turn)

    def _reached(self, stage: str) -> None:
        if self._until == "ast":
            raise Stopped  # the front end is no stage of a backend: it is done when the first of those begins
        self._mark(stage)

    def _passed(self, stage: str, result, metadata: dict) -> None:
        self._metadata = metadata
        if stage == self._shown:
            self._text = str(result)
        if stage == self._until:
            raise Stopped

    def tolerates(self, error: BaseException) -> bool:
        """What the release's Autotuner did with the error where it ran; elsewhere what it would do."""
        return getattr(error, "skipped", isinstance(error, releases.tolerated_errors()))

    def run(self, request: dict, mark) -> dict:
        """Answer a request: its operation is a method of this class."""
        self._mark, self._until, self._shown = mark, request.get("until"), None
        self.driver.select(request["card"])
        self._private_cache()
        kernel = self.loader.load(request["kernel"], request["card"])
        started = time.perf_counter()
        answer = getattr(self, "op_" + request["op"])(kernel, request)
        answer.setdefault("seconds", time.perf_counter() - started)
        return answer

    def _private_cache(self) -> None:
        """A folder for what Triton caches, emptied now and then; nothing in it is ever read."""
        folder = os.path.join(self._scratch, f"cache-{os.getpid()}")
        if self._count % _SWEEP == 0:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            os.environ["TRITON_CACHE_DIR"] = folder
            tempfile.tempdir = folder
        self._count += 1

    def op_compile(self, kernel, request: dict) -> dict:
        """Compile one launch; `resources` of the result, `stage` the last one run."""
        function = releases.unwrap(kernel)
        # A kernel may have a parameter of an option's name: then both are one value.
        arguments = {
            **request["options"],
            **releases.with_heuristics(kernel, self.arguments(request, function)),
        }
        self._mark("ast")
        self.assembler.forget()
        try:
            compiled = function.run(grid=None, warmup=True, **arguments)
        except Stopped:
            memory = {
                "shared": self._metadata.get("shared"),
                "tensor_memory": self._metadata.get("tmem_size"),
            }
            return {"stage": self._until, "resources": memory}
        finally:
            releases.forget_compiled(function)
        return {"resources": self._resources(compiled, request["card"])}

    def arguments(self, request: dict, function) -> dict:
        names = function.fn.__globals__
        return {
            name: values.value(spec, self.language, names)
            for name, spec in request["launch"]["args"].items()
        }

    def _resources(self, compiled, card: dict) -> dict:
        metadata = compiled.metadata
        return {
            "shared": metadata.shared,
            "tensor_memory": getattr(metadata, "tmem_size", None),
            "threads": metadata.num_warps * card["warp_size"],
            **self.assembler.usage(compiled),
        }

    def op_autotune(self, kernel, request: dict) -> dict:
        """Run the release's own autotuner over the launch, only its timing replaced."""
        self._mark("autotune")
        return tune.run(kernel, request, self.language)

    def op_show(self, kernel, request: dict) -> dict:
        """The text that the last stage asked for gives."""
        self._shown, self._text = request["until"], None
        answer = self.op_compile(kernel, request)
        return {**answer, "facts": {request["until"]: self._text}}

    def op_compile_ir(self, kernel, request: dict) -> dict:
        """Compile a module's text of Triton's own IR, as `triton.compile` takes it."""
        import triton

        path = os.path.join(tempfile.mkdtemp(), releases.unwrap(kernel).fn.__name__ + ".ttir")
        with open(path, "w") as file:
            file.write(request["ir"])
        compiled = triton.compile(
            path, target=self.driver.get_current_target(), options=request["options"]
        )
        return {"resources": self._resources(compiled, request["card"])}

    def op_cut(self, kernel, request: dict) -> dict:
        """The kernel's source with all that it uses, as one module, and what its heuristics make of
        the launch.
        """
        function = releases.unwrap(kernel)
        given = self.arguments(request, function) if request["launch"] else {}
        complete = releases.with_heuristics(kernel, given)
        cut = Cutter().cut(function, handed(function, complete))
        added = {name: value for name, value in complete.items() if name not in given}
        facts = {
            "text": cut.text,
            "reason": cut.reason,
            "qualname": function.fn.__name__,
            "heuristics": added,
        }
        return {"stage": "import", "facts": facts}

    def op_trial(self, kernel, request: dict) -> dict:
        """Have the release's own autotuner try one configuration; `resources` of it where it was
        compiled.
        """
        self._mark("ast")
        self.assembler.forget()
        return trial.run(kernel, request, self.language, self._loaded)

    def _loaded(self, compiled, request: dict) -> dict:
        """A compile of a trial is about to be loaded: what it asks of the card."""
        self._mark("load")
        return self._resources(compiled, request["card"])

    def op_keys(self, kernel, request: dict) -> dict:
        """What the release's own autotuner puts into its key for a launch."""
        self._mark("keys")
        return tune.keys(kernel, request, self.language)

    def op_import(self, kernel, request: dict) -> dict:
        """The kernel's module was imported: that is all."""
        return {"stage": "import"}

    def op_inspect(self, kernel, request: dict) -> dict:
        """What the kernel's decorators say: arguments, configurations and keys of its autotuner."""
        return {"stage": "import", "facts": tune.describe(kernel)}
