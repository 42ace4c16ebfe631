"""A program to capture twice, on a card and on one that is not there: FLA's layers under autocast.

    python layers.py [--autocast fp16] [NAME…]

Every layer that `fla.layers` offers takes a batch forward and backward under autocast, with its
parameters in float32, so that kernels get mixed dtypes where a layer promotes a tensor. A line for
each layer is printed: how it went, which `flacheck dtypes` predicts. `compare_launches.py` compares
the captures:

    flacheck capture --device real -o card.jsonl -- python tests/gpu/layers.py (on the card)
    flacheck capture --device h100 -o fake.jsonl -- python tests/gpu/layers.py (anywhere)
"""

from __future__ import annotations

import argparse
import inspect

import fla.layers
import torch
import triton.runtime.autotuner

BATCH, LENGTH, WIDTH, HEADS = 2, 128, 256, 4
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# By the names of constructor arguments.
SIZES = {
    "hidden_size": WIDTH,
    "d_model": WIDTH,
    "num_heads": HEADS,
    "head_dim": WIDTH // HEADS,
    "num_slots": 64,
    "layer_idx": 0,
}


def layers() -> dict[str, type[torch.nn.Module]]:
    """Return the layers by name."""
    classes = {}
    for name, value in vars(fla.layers).items():
        if inspect.isclass(value) and issubclass(value, torch.nn.Module):
            classes[name] = value
    return dict(sorted(classes.items()))


def make(layer: type[torch.nn.Module]) -> torch.nn.Module:
    """Construct a small layer."""
    sizes = {}
    for name in inspect.signature(layer).parameters:
        if name in SIZES:
            sizes[name] = SIZES[name]
    return layer(**sizes).cuda().train()


def call(layer: type[torch.nn.Module], dtype: torch.dtype) -> str:
    """Return how a step of the layer went."""
    try:
        module = make(layer)
        hidden = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", requires_grad=True)
        with torch.autocast("cuda", dtype):
            result = module(hidden)
            output = result[0] if isinstance(result, tuple) else result
        output.float().sum().backward()
        return "forward and backward"
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return f"{type(error).__name__}: {lines[-1][:100]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--autocast", choices=DTYPES, default="fp16")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    # A kernel runs in its first configuration: compiling all takes a card an hour.
    triton.runtime.autotuner.Autotuner._bench = lambda *args, **kwargs: [1.0, 1.0, 1.0]
    for name, layer in layers().items():
        if not options.names or name in options.names:
            print(f"{name}: {call(layer, DTYPES[options.autocast])}", flush=True)


if __name__ == "__main__":
    main()
