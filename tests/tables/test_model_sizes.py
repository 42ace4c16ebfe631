"""The table of models' sizes: its rows, and the packages that it is read from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flacheck.tables.model_sizes import Layer, list_models
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
