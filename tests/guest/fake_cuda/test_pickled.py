"""Tensors without data that are copied, saved, or sent to another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captured import exit_code, needs_torch, recorded

LOAD = """
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return {"ids": torch.arange(i, i + 3), "x": torch.randn(3), "i": i}
def child(queue):
    queue.put(torch.nn.Parameter(torch.ones(2, device="cuda")))
    queue.put(torch.zeros(0, dtype=torch.bfloat16))

if __name__ == "__main__":
    seen = []
    for batch in DataLoader(Rows(), batch_size=2, shuffle=True, num_workers=1, pin_memory=True):
        ids = batch["ids"].to("cuda", non_blocking=True)
        assert batch["x"].shape == (2, 3) and batch["i"].tolist() == ids[:, 0].tolist()
        seen += batch["i"].tolist()
        launch(batch["x"].cuda(), int(ids.sum()) * 0 + 7)
    assert sorted(seen) == [0, 1, 2, 3]
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    parameter, empty = queue.get(), queue.get()
    process.join()
    assert isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad
    assert parameter.device.type == "cuda"
    assert parameter.tolist() == [1.0, 1.0] and empty.dtype is torch.bfloat16
    import pickle
    again = pickle.loads(pickle.dumps(ids.t()))
    assert again.tolist() == ids.t().tolist() and again.stride() == ids.t().stride()
"""


@needs_torch
def test_batches_come_from_the_workers_of_a_data_loader(tmp_path: Path) -> None:
    """Tensors travel between processes with their form, and with their values if there are any."""
    (one,) = recorded(tmp_path, LOAD).launches
    assert (one.launch.args["n"], one.count, one.guessed) == ({"int": 7}, 2, None)


COPY = """
import copy
model = torch.nn.BatchNorm1d(4).cuda()
model.weight.no_decay = ["yes"]
model(torch.randn(8, 4, device="cuda")).sum().backward()
model.tied = model.weight
twin = copy.deepcopy(model)
assert twin.tied is twin.weight and twin.weight is not model.weight
assert isinstance(twin.weight, torch.nn.Parameter)
assert twin.weight.no_decay == ["yes"] and twin.weight.no_decay is not model.weight.no_decay
assert twin.weight.grad.shape == (4,)
assert twin.bias.requires_grad and twin.bias.device.type == "cuda"
assert twin.num_batches_tracked.item() == 1
model.num_batches_tracked += 1
assert twin.num_batches_tracked.item() == 1 and model.num_batches_tracked.item() == 2
try:
    copy.deepcopy(model.weight * 2)
    raise SystemExit("only leaves can be copied")
except RuntimeError:
    pass
"""


@needs_torch
def test_a_model_can_be_copied(tmp_path: Path) -> None:
    """A copy has the parameters, gradients, buffers with values, and attributes, as an average of
    weights needs."""
    assert exit_code(tmp_path, COPY) == 0


SAVE = """
import io, pickle
model = torch.nn.BatchNorm1d(4).cuda()
torch.save({"model": model.state_dict(), "step": 3}, "checkpoint.pt")
loaded = torch.load("checkpoint.pt", map_location="cpu", weights_only=True)
assert loaded["step"] == 3 and {t.device.type for t in loaded["model"].values()} == {"cpu"}
model.load_state_dict(loaded["model"])
buffer = io.BytesIO()
torch.save(model, buffer)
buffer.seek(0)
assert torch.load(buffer, weights_only=False).weight.device.type == "cuda"
buffer.seek(0)
try:
    torch.load(buffer)
    raise SystemExit("a whole model is more than weights")
except pickle.UnpicklingError:
    pass
with open("real.pt", "rb") as file:
    assert torch.load(file, map_location="cuda")["x"].shape == (3,)
"""


@needs_torch
def test_what_a_program_saves_it_can_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program loads its own checkpoints, and those that torch wrote elsewhere."""
    import torch

    monkeypatch.chdir(tmp_path)
    torch.save({"x": torch.ones(3)}, tmp_path / "real.pt")
    assert exit_code(tmp_path, SAVE) == 0
