"""What a capture's driver is told about the package."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flacheck.subjects.captures.capture_job import CaptureJob, driver_config

KERNELS = "import triton\n\n@triton.jit\ndef add(x): ...\n\ndef run(x):\n    add[(1,)](x)\n"


def imported_modules(folder: Path, others: int, **selection: Any) -> list[str]:
    """Return the modules that a capture imports of a package with one kernel and `others`."""
    texts = {"__init__": "", "kernels": KERNELS, "ops": "from .kernels import run\n"}
    texts |= {f"other{number}": "" for number in range(others)}
    for name, text in texts.items():
        (folder / "shop").mkdir(parents=True, exist_ok=True)
        (folder / "shop" / f"{name}.py").write_text(text)
    own_modules = ("shop", *(f"shop.{name}" for name in texts if name != "__init__"))
    shop: Any = SimpleNamespace(
        name="shop",
        identity="shop==1.0",
        path=str(folder),
        modules=("shop",),
        own_modules=own_modules,
    )
    toolchain: Any = None
    modules: list[str] = driver_config(folder, CaptureJob(shop, toolchain, {}, **selection))["own"]
    return modules


def test_of_many_modules_those_are_imported_that_lead_to_kernels(tmp_path: Path) -> None:
    """A small package is imported whole, and so is any whose functions are selected."""
    near = ["shop.kernels", "shop.ops"]
    assert len(imported_modules(tmp_path / "small", 3)) == 6
    assert imported_modules(tmp_path / "selected", 3, kernels=("add",)) == near
    assert imported_modules(tmp_path / "large", 700) == near
    assert len(imported_modules(tmp_path / "functions", 700, ops=("run",))) == 703
