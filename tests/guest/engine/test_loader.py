"""Kernels of packages whose `__init__` files are put off."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from flacheck.guest.engine.loader import Loader
packages = {"shop": {"path": sys.argv[1], "modules": ["shop"]}}
loader = Loader({"packages": packages, "scratch": sys.argv[1]}, lambda card: None)
print(loader.load({"module": "shop.ops", "qualname": sys.argv[2]}, {"name": "any"}))
print(sorted(name for name in sys.modules if name.startswith("shop.")))
"""
FILES = {
    "shop/__init__.py": "raise RuntimeError('put off for good')\n",
    "shop/ops.py": "from shop.modules import rate\nPLAIN = rate\n",
    "shop/modules/__init__.py": "import sys\nfrom shop.modules.new import rate\n"
    "sys.modules[f'{__name__}.old'] = sys.modules[f'{__name__}.new']\n",
    "shop/modules/new.py": "rate = 7\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def load(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), name], capture_output=True, text=True
    )


def test_a_name_is_found_without_running_the_init(shop: Path) -> None:
    """The name is looked up in the module from which the `__init__` imports it."""
    result = load(shop, "PLAIN")
    assert result.stdout.splitlines() == [
        "7",
        "['shop.modules', 'shop.modules.new', 'shop.ops']",
    ], result.stderr


def test_a_module_by_its_old_name_makes_the_init_run(shop: Path) -> None:
    """No file `shop.modules.old` exists: the package's `__init__` gives that name to a module."""
    (shop / "shop" / "ops.py").write_text(
        "import shop.modules.old as old, shop.modules.new as new\n"
        "SAME = old is new, old.__spec__.name\n"
    )
    result = load(shop, "SAME")
    assert result.stdout.splitlines()[:1] == ["(True, 'shop.modules.new')"], result.stderr


def test_a_package_is_imported_within_what_the_worker_says(shop: Path) -> None:
    """The worker's context surrounds imports of this package only; names resolve when read."""
    (shop / "shop" / "ops.py").write_text("import sys\nPLAIN = sys.flag\n")
    around = """
import contextlib, sys
@contextlib.contextmanager
def importing():
    sys.flag = "within"
    yield
    sys.flag = "after"
"""
    program = around + PROGRAM.replace("lambda card: None)", "lambda card: None, False, importing)")
    command = [sys.executable, "-c", program + "print(sys.flag)", str(shop), "PLAIN"]
    result = subprocess.run(command, capture_output=True, text=True)
    lines = result.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("within", "after"), result.stderr


def test_where_an_import_fails_the_cut_source_is_taken(shop: Path) -> None:
    """The capture could import it. Without such a source the error is raised."""
    (shop / "shop" / "ops.py").write_text("raise RuntimeError('no card')\n")
    failure = load(shop, "Some.PLAIN")
    assert "no card" in failure.stderr
    origin = '"qualname": sys.argv[2]}'
    program = PROGRAM.replace(origin, '"qualname": sys.argv[2], "cut": "PLAIN = 9"}')
    command = [sys.executable, "-c", program, str(shop), "Some.PLAIN"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout.splitlines()[0] == "9", result.stderr
    # No program can import what its release of Triton lacks.
    (shop / "shop" / "ops.py").write_text("raise ImportError('removed', name='triton.ops')\n")
    result = subprocess.run(command, capture_output=True, text=True)
    assert "ImportError: removed" in result.stderr


def test_a_module_that_is_not_there_is_missed_as_ever(shop: Path) -> None:
    """This also holds where the `__init__` that might define it does not run."""
    (shop / "shop" / "ops.py").write_text(
        "try:\n    import shop.nowhere\n"
        "except ModuleNotFoundError as error:\n    SAID = error.name\n"
    )
    result = load(shop, "SAID")
    assert result.stdout.splitlines()[:1] == ["shop.nowhere"], result.stderr


def test_what_torch_has_imported_already_is_not_imported_once_more(shop: Path) -> None:
    """A package may contain a dependency of torch: modules that torch has imported are kept."""
    for name in ("packages/grain", "torchs/grain"):
        file = shop / "both" / name / "__init__.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"OF = {name!r}\n")
    ops = shop / "both" / "packages" / "mill" / "ops.py"
    ops.parent.mkdir()
    ops.write_text("import grain\nOF = grain.OF\n")
    (ops.parent / "__init__.py").write_text("")
    program = PROGRAM.replace('"shop"', '"mill"').replace('"shop.ops"', '"mill.ops"')
    begin = f"import sys; sys.path.insert(0, {str(shop / 'both' / 'torchs')!r}); import grain\n"
    command = [sys.executable, "-c", begin + program, str(shop / "both" / "packages"), "OF"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout.splitlines()[:1] == ["torchs/grain"], result.stderr


def test_dependencies_that_cannot_wait_are_imported_as_ever(shop: Path) -> None:
    """Some names of dependencies exist only after their own order of imports."""
    files = {
        "grain/__init__.py": "from .a import first\nfrom . import b\n",
        "grain/a.py": "def first(): ...\n",
        "grain/b.py": "import grain.a\ngrain.a.second = 7\n",
        "mill/__init__.py": "",
        "mill/ops.py": "from grain.a import second\nOF = second\n",
    }
    for name, text in files.items():
        file = shop / "late" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    program = PROGRAM.replace('"shop"', '"mill"').replace('"shop.ops"', '"mill.ops"')
    command = [sys.executable, "-c", program, str(shop / "late"), "OF"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stdout.splitlines()[:1] == ["7"], result.stderr


def test_a_name_that_an_init_imports_comes_before_a_submodule_of_that_name(shop: Path) -> None:
    """`from .entry import entry` binds the function, however the submodule was imported before; a
    dependency's `__init__` runs for it."""
    files = {
        "shop/utils/__init__.py": "from shop.utils.entry import entry\nfrom . import plain\n",
        "shop/utils/entry.py": "def entry(): return 7\nother = 8\n",
        "shop/utils/plain.py": "",
        "grain/__init__.py": "from grain.seed import seed\n",
        "grain/seed.py": "def seed(): return 9\nother = 10\n",
        "shop/ops.py": "from shop.utils.entry import other\nfrom shop.utils import entry, plain\n"
        "from grain.seed import other as more\nfrom grain import seed\n"
        "OF = entry(), plain.__name__, other, seed(), more\n",
    }
    for name, text in files.items():
        file = shop / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    result = load(shop, "OF")
    assert result.stdout.splitlines()[:1] == ["(7, 'shop.utils.plain', 8, 9, 10)"], result.stderr


def test_a_kernel_whose_name_a_function_of_the_host_took(shop: Path) -> None:
    """The module's own name finds the kernel; a kernel without a name comes from its cut source."""
    (shop / "shop" / "ops.py").write_text(
        "class Jit:\n"
        "    def __init__(self, fn): self.fn = fn\n"
        "    def __repr__(self): return 'the kernel'\n"
        "@Jit\ndef grow(): ...\n"
        "@Jit\ndef lost(): ...\n"
        "kept = Jit(grow)\n"
        "def grow(): ...\ndef lost(): ...\n"
    )
    result = load(shop, "grow")
    assert result.stdout.splitlines()[:1] == ["the kernel"], result.stderr
    failure = load(shop, "lost")
    assert "shop.ops:lost is a function of the host, not a kernel" in failure.stderr


def test_a_kernel_within_a_function_cannot_be_loaded(shop: Path) -> None:
    """The error blames the function around the kernel, not the kernel."""
    (shop / "shop" / "ops.py").write_text(
        "import functools\n@functools.cache\ndef made(rate):\n    def kernel(x): ...\n"
    )
    result = load(shop, "made.kernel")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ImportError: made.kernel is defined within a function of shop.ops, and its source could "
        "not be cut out"
    )
