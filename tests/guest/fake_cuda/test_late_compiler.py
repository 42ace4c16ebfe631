"""torch's compiler on the imitated card: imported when a program uses it, and not before."""

from __future__ import annotations

from pathlib import Path

from tests.captured import exit_code, needs_torch

LAUNCHES = """
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)).cuda()
torch.manual_seed(3)
x = torch.randn(4, 8, device="cuda", requires_grad=True)
with torch.autocast("cuda", torch.bfloat16):
    model(x).sum().backward()
launch(x)
import torch._dynamo
torch._dynamo.config.suppress_errors = True
assert "torch._dynamo.symbolic_convert" not in sys.modules
optimizer = torch.optim.AdamW(model.parameters())
torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()
optimizer.step()
"""


@needs_torch
def test_a_program_that_compiles_nothing_does_not_import_it(tmp_path: Path) -> None:
    """Layers and seeds do not import the compiler; optimizers import it and work."""
    assert exit_code(tmp_path, LAUNCHES) == 0


USES = """
import os

uses = [
    "torch._dynamo.reset()",
    "from torch._dynamo import allow_in_graph",
    "import torch._dynamo.eval_frame as m; assert m is torch._dynamo.eval_frame",
    "from torch._dynamo.utils import counters; counters.clear()",
    "import torch._dynamo.backends.registry as m; m.list_backends()",
    "assert not hasattr(torch._dynamo, 'no_such_thing')",
]
for use in uses:
    child = os.fork()
    if not child:
        exec(use)
        import torch._dynamo.symbolic_convert as first
        assert torch._dynamo.symbolic_convert is first
        assert sys.modules["torch._dynamo"] is torch._dynamo
        assert torch._dynamo.eval_frame.__spec__.name == "torch._dynamo.eval_frame"
        from torch._dynamo.eval_frame import DisableContext
        assert sys.modules["torch._dynamo.eval_frame"].DisableContext is DisableContext
        launch(torch.empty(64, device="cuda"))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, use
launch(torch.empty(64, device="cuda"))
"""


@needs_torch
def test_who_asks_for_it_has_it_whole(tmp_path: Path) -> None:
    """Each module of the compiler is imported once, in torch's order, whatever a process uses."""
    assert exit_code(tmp_path, USES) == 0


@needs_torch
def test_what_torch_left_uncompiled_before_the_import_stays_uncompiled(tmp_path: Path) -> None:
    """torch stores the compiler's decision for each function."""
    program = """
    from torch._compile import _disable_dynamo

    @_disable_dynamo
    def add(x): return x + 1

    x = torch.empty(64, device="cuda")
    add(x)
    whole = torch.compile(lambda x: add(x) * 2, backend="eager", fullgraph=True)
    try:
        whole(x)
    except torch._dynamo.exc.Unsupported:
        launch(x)
    else:
        sys.exit(5)
    """
    assert exit_code(tmp_path, program) == 0


@needs_torch
def test_it_compiles_no_function_of_flacheck(tmp_path: Path) -> None:
    """An uncompiled loop calls stand-ins for torch's functions; a compiled part inlines them."""
    program = """
    @torch.compile(backend="eager")
    def loop(x):
        for _ in range(2):
            x = torch.zeros_like(x) + x.to(torch.float16)
            torch._dynamo.graph_break()
        return x

    @torch.compile(backend="eager", fullgraph=True)
    def whole(x):
        y = torch.zeros_like(x) + torch.arange(64, device=x.device)
        return y.to("cuda") + y.cuda()

    x = torch.empty(64, device="cuda")
    loop(x)
    assert torch._dynamo.utils.counters["frames"]["total"] == 1
    launch(whole(x))
    """
    assert exit_code(tmp_path, program) == 0
