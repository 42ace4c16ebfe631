"""A training script of a user's own, which promotes its keys on the way to a kernel."""

from __future__ import annotations

from pathlib import Path

from tests import mixed_layers

PROMOTION = "k = k + self.gain"
_FILE = """
import argparse
import sys

import torch

from mixed import Mixer

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--dtype", default="float16")
options = parser.parse_args()
model = Mixer(64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for step in range(options.steps):
    x = torch.randn(2, 128, 64, device="cuda")
    with torch.autocast("cuda", getattr(torch, options.dtype)):
        loss = model(x).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print("trained")
sys.exit({status})
"""


def write(
    folder: Path, promotion: str = PROMOTION, contract: str = "pass", status: int = 0
) -> Path:
    """Write the script, and the module `mixed` beside it."""
    mixed_layers.write(folder, "mixed", promotion, contract)
    file = folder / "train.py"
    file.write_text(_FILE.replace("{status}", str(status)), encoding="utf-8")
    return file
