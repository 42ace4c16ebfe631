"""torch's compiler on the imitated card: there for who asks, imported only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captured import exit_code, needs_torch

LAUNCHED = """
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

ASKED = {
    "a name of its own": "torch._dynamo.reset()",
    "a name of its own, imported": "from torch._dynamo import allow_in_graph",
    "a module": "import torch._dynamo.eval_frame as m; assert m is torch._dynamo.eval_frame",
    "names of a module": "from torch._dynamo.utils import counters; counters.clear()",
    "a module of a folder": "import torch._dynamo.backends.registry as m; m.list_backends()",
    "a name that nobody has": "assert not hasattr(torch._dynamo, 'no_such_thing')",
}


@needs_torch
def test_a_program_that_compiles_nothing_does_not_import_it(tmp_path: Path) -> None:
    """Layers and seeds ask for nothing; optimizers do, and have it."""
    assert exit_code(tmp_path, LAUNCHED) == 0


@needs_torch
@pytest.mark.parametrize("how", ASKED)
def test_who_asks_for_it_has_it_whole(tmp_path: Path, how: str) -> None:
    """Each of its modules once, in its own order."""
    program = f"""
    {ASKED[how]}
    import torch._dynamo.symbolic_convert as first
    assert torch._dynamo.symbolic_convert is first
    assert sys.modules["torch._dynamo"] is torch._dynamo
    assert torch._dynamo.eval_frame.__spec__.name == "torch._dynamo.eval_frame"
    from torch._dynamo.eval_frame import DisableContext
    assert sys.modules["torch._dynamo.eval_frame"].DisableContext is DisableContext
    launch(torch.empty(64, device="cuda"))
    """
    assert exit_code(tmp_path, program) == 0
