"""The worker that compiles a cell through its Triton release's own `JITFunction.run`."""

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
from ..engine.cpu_time import cpu_seconds
from ..engine.driver import TargetDriver
from ..engine.loader import Importing, Loader, Turn
from ..engine.messages import CardRow, Json, Kernel, Mark, Reply, Request, WorkerConfig
from . import torch_stub, tuner, values
from .cut import Cutter, passed_functions
from .launchable import describe_binary
from .removed_api import collecting_parameter, removed_api

# The number of compiles that share a folder before it is emptied: few enough that the disk does not
# fill up, many enough that it costs little.
_SWEEP = 64


class TritonWorker:
    """A Triton release; made once in the warm process and inherited by every fork.

    An operation `op` of a request is the method `op_…`, called with the kernel.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._scratch = config["scratch"]
        self._until: str | None = None
        self._shown: str | None = None
        self._text: str | None = None
        self._metadata: Json = {}
        # No request is running yet.
        self._mark: Mark = lambda stage: None
        self._count = 0
        self._driver = TargetDriver()
        self._has_stub = config.get("torch") is None
        turn, importing = _torch(config, self._driver)
        # Triton is imported only now, because torch or its stand-in must be there first.
        releases.skip_library_hash(config["identity"])
        releases.install_driver(self._driver)
        releases.mark_stages(self._before_stage, self._after_stage)
        releases.watch_front_end(_note_removed)
        tuner.watch()
        self._assembler = Assembler(releases.binary_folder())
        self._assembler.listen()
        self._loader = Loader(config, turn, importing=importing)

    def _before_stage(self, stage: str) -> None:
        # The front end is not a stage of a backend: it is done when the first stage begins.
        if self._until == "ast":
            raise releases.StageReached
        self._mark(stage)

    def _after_stage(self, stage: str, result: object, metadata: Json) -> None:
        self._metadata = metadata
        if stage == self._shown:
            self._text = str(result)
        if stage == self._until:
            raise releases.StageReached

    def tolerates(self, error: BaseException) -> bool:
        """Return True if the Autotuner skipped the error, or would have skipped it."""
        is_tolerated: bool = getattr(
            error, "skipped", isinstance(error, releases.tolerated_errors())
        )
        return is_tolerated

    def run(self, request: Request, mark: Mark) -> Reply:
        """Run a request and return its reply; its times exclude the import."""
        self._mark = mark
        self._until = request.get("until")
        self._shown = None
        self._driver.select(request["card"])
        if self._count % _SWEEP == 0:
            # A folder for Triton's cache, emptied now and then. Nothing in it is ever read.
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
        start, cpu = time.perf_counter(), cpu_seconds()
        with guard:
            operation = getattr(self, "op_" + request["op"])
            answer: Reply = operation(kernel, request)
        answer.setdefault("seconds", time.perf_counter() - start)
        answer.setdefault("cpu_seconds", cpu_seconds() - cpu)
        return answer

    def op_compile(self, kernel: Kernel, request: Request) -> Reply:
        """Compile one launch; return the last `stage`, or the `resources` of the result.

        The facts hold the `binary` if the request asks for it and this machine can run it.
        """
        function = releases.unwrap(kernel)
        launch_arguments = self._arguments(request, function)
        # If a parameter of the kernel has an option's name, both have one value.
        arguments = dict(request["options"])
        arguments.update(releases.with_heuristics(kernel, launch_arguments))
        self._mark("ast")
        self._assembler.forget()
        try:
            compiled_kernel = function.run(grid=None, warmup=True, **arguments)
        except releases.StageReached:
            metadata = self._metadata
            shared = metadata.get("shared")
            tensor_memory = metadata.get("tmem_size")
            resources = {"shared": shared, "tensor_memory": tensor_memory}
            return {"stage": self._until, "resources": resources}
        except Exception as error:
            if self._has_stub:
                # The release may accept the kernel beside a real torch.
                torch_stub.check_reads(function.fn)
            # Other parts of Triton than the front end also read a kernel's source.
            _note_removed(error)
            _note_collected_constants(error, function)
            raise
        finally:
            releases.forget_compiled(function)
        answer: Reply = {"resources": self._resources(compiled_kernel, request["card"])}
        if request.get("binary") and "cubin" in compiled_kernel.asm:
            warp_size = request["card"]["warp_size"]
            answer["facts"] = {"binary": describe_binary(compiled_kernel, arguments, warp_size)}
        return answer

    def _arguments(self, request: Request, function: Kernel) -> Json:
        specs = request["launch"]["args"]
        return values.arguments(specs, function.fn.__globals__)

    def _resources(self, compiled_kernel: Any, card: CardRow) -> Json:
        metadata = compiled_kernel.metadata
        return {
            "shared": metadata.shared,
            "tensor_memory": getattr(metadata, "tmem_size", None),
            "threads": metadata.num_warps * card["warp_size"],
            **self._assembler.usage(compiled_kernel),
        }

    def op_show(self, kernel: Kernel, request: Request) -> Reply:
        """Compile, and return the text that the last requested stage produces."""
        until = request["until"]
        assert until is not None
        self._shown, self._text = until, None
        answer = self.op_compile(kernel, request)
        answer["facts"] = {until: self._text}
        return answer

    def op_types(self, kernel: Kernel, request: Request) -> Reply:
        """Run the front end alone, and return the type of each expression that it reads.

        An error of the front end is no error here: the types before it are known.
        """
        function = releases.unwrap(kernel)
        arguments = dict(request["options"])
        arguments.update(self._arguments(request, function))
        with releases.typed_expressions() as types:
            releases.front_end_error(type(function).run, function, arguments)
        return {"stage": "ast", "facts": {"types": list(types.items())}}

    def op_passes(self, kernel: Kernel, request: Request) -> Reply:
        """Compile, and make the compiler print the input of each of its passes.

        This is only for a worker that does nothing afterwards: the compiler's library may read the
        variable at any time.
        """
        os.environ["MLIR_ENABLE_DUMP"] = "1"
        return self.op_compile(kernel, request)

    def op_compile_ir(self, kernel: Kernel, request: Request) -> Reply:
        """Compile a module's text of Triton's own IR with `triton.compile`."""
        import triton

        name = releases.unwrap(kernel).fn.__name__
        path = os.path.join(tempfile.mkdtemp(), f"{name}.ttir")
        with open(path, "w") as file:
            file.write(request["ir"])
        target = self._driver.get_current_target()
        options = request["options"]
        compiled_kernel = triton.compile(path, target=target, options=options)
        return {"resources": self._resources(compiled_kernel, request["card"])}

    def op_autotune(self, kernel: Kernel, request: Request) -> Reply:
        """Run the release's own autotuner over the launch, with only its timing replaced."""
        self._mark("autotune")
        return tuner.autotune(kernel, request)

    def op_keys(self, kernel: Kernel, request: Request) -> Reply:
        """Return the key that the release's own autotuner builds for a launch."""
        self._mark("keys")
        return tuner.keys(kernel, request)

    def op_trial(self, kernel: Kernel, request: Request) -> Reply:
        """Try one configuration with the release's own autotuner."""

        def measure(compiled_kernel: Any) -> Json:
            self._mark("load")
            return self._resources(compiled_kernel, request["card"])

        self._mark("ast")
        self._assembler.forget()
        return tuner.attempt(kernel, request, measure)

    def op_cut(self, kernel: Kernel, request: Request) -> Reply:
        """Return the kernel's source with its helpers, and the values of its heuristics."""
        function = releases.unwrap(kernel)
        launch_arguments: Json = {}
        if request["launch"]:
            launch_arguments = self._arguments(request, function)
        complete = releases.with_heuristics(kernel, launch_arguments)
        cut = Cutter().cut(function, passed_functions(function, complete))
        heuristics = {name: complete[name] for name in complete if name not in launch_arguments}
        facts = {
            "text": cut.text,
            "reason": cut.reason,
            "qualname": function.fn.__name__,
            "heuristics": heuristics,
        }
        return {"stage": "import", "facts": facts}

    def op_import(self, kernel: Kernel, request: Request) -> Reply:
        """Return the stage only: the kernel's module was imported."""
        return {"stage": "import"}

    def op_inspect(self, kernel: Kernel, request: Request) -> Reply:
        """Return the arguments, configurations and keys from the kernel's decorators."""
        return {"stage": "import", "facts": tuner.describe(kernel)}


def _note_removed(error: BaseException) -> None:
    api = removed_api(error)
    if api is not None and not hasattr(error, "facts"):
        setattr(error, "facts", {"api": api})  # noqa: B010


def _note_collected_constants(error: BaseException, function: Kernel) -> None:
    """Attach `**meta` as the removed API to the launcher's error for a kernel that has it."""
    name = collecting_parameter(function)
    if name is not None and isinstance(error, TypeError):
        setattr(error, "facts", {"api": f"**{name}"})  # noqa: B010


# The name under which the server looks for a module's worker.
Worker = TritonWorker


def _torch(config: WorkerConfig, driver: TargetDriver) -> tuple[Turn, Importing]:
    """Make torch or its stand-in importable.

    Returns the function that selects another card, and the context for the import of a package.
    """
    if config.get("torch") is None:
        torch_stub.install(driver)
        return torch_stub.turn, contextlib.nullcontext
    sys.path.append(config["torch"])  # behind the compiler, because the folder has other packages
    from . import torch_cuda

    torch_cuda.disable_torchscript()
    torch_cuda.leave_functions_uncompiled()
    if "package_card" not in config:
        return torch_cuda.turn, contextlib.nullcontext
    # The config names the module, because this room may not import rooms above it.
    module = importlib.import_module(".." + config["package_card"], __package__)
    card = module.PackageCard()
    return card.turn, card.importing
