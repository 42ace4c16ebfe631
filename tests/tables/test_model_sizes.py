"""The table of models' sizes: its rows, its ranking, and the packages that it is read from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flacheck.tables.model_sizes import Layer, ModelSizes, list_models, rank_head_sizes
from tests.paths import ROOT, TABLES


def test_the_table_covers_linear_attention_first() -> None:
    """Each model occurs once, linear attention first."""
    models = list_models()
    assert [*dict.fromkeys(each.layer for each in models)] == list(Layer)
    assert len({each.name for each in models}) == len(models) >= 40
    assert all(each.hidden for each in models)


def test_every_row_names_the_configuration_class_that_it_was_read_from() -> None:
    """A source is a class of a package at an exact version."""
    form = re.compile(r"\w+Config\(\) of (transformers|flash-linear-attention) \d+\.\d+\.\d+")
    assert [each.name for each in list_models() if not form.fullmatch(each.source)] == []


def test_the_commonest_head_size_comes_first() -> None:
    """Sizes of more models come first."""
    sizes = {"layer": Layer.ATTENTION, "hidden": 64, "source": "S"}
    narrow = {"key_size": 64, "value_size": 64, "key_heads": 4, "value_heads": 4}
    wide = {"key_size": 128, "value_size": 256, "key_heads": 2, "value_heads": 2}
    sizes_by_rank = rank_head_sizes(
        [
            ModelSizes(name="A", heads=4, **narrow, **sizes),
            ModelSizes(name="B", heads=2, **wide, **sizes),
            ModelSizes(name="C", heads=8, **wide, **sizes),
            ModelSizes(name="D", heads=8, **wide, **sizes),
            ModelSizes(name="E", state=16, **sizes),
        ]
    )
    assert [
        (each.key_size, each.value_size, each.heads, each.models) for each in sizes_by_rank
    ] == [
        (128, 256, 8, ("C", "D")),
        (128, 256, 2, ("B",)),
        (64, 64, 4, ("A",)),
    ]


def test_most_models_have_head_size_128() -> None:
    """Head size 128 is the commonest."""
    first = rank_head_sizes(list_models())[0]
    assert (first.key_size, first.value_size) == (128, 128)


@pytest.mark.network
def test_the_packages_have_the_sizes_of_the_table(tmp_path: Path) -> None:
    """The configuration classes give the committed table."""
    packages = {each.source.partition("() of ")[2] for each in list_models()}
    transformers, fla = sorted((each.replace(" ", "==") for each in packages), reverse=True)
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", str(tmp_path)]
    subprocess.run([*install, transformers], check=True)
    subprocess.run(
        [*install, "--no-deps", fla, fla.replace("flash-linear-attention", "fla-core")], check=True
    )
    outcome = subprocess.run(
        [sys.executable, "-c", "from tests.model_sizes import text; print(text(), end='')"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout == (TABLES / "model_sizes.yaml").read_text()
