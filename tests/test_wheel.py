"""The wheel, built from the tree and installed away from it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


def test_nothing_but_flacheck_is_top_level(wheel: Path) -> None:
    """`kernels` is also the name of a package on the index; ours lie below flacheck/."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"flacheck"}
    files = (
        "kernels/retention.py",
        "matrices/seeds.yaml",
        "tables/schemas/run-1.json",
        "tables/torch_pins.yaml",
        "guest/engine/server.py",
    )
    assert {f"flacheck/{file}" for file in files} <= set(names)


def test_a_scan_works_from_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    """The scan runs in an empty folder, without the checkout on the path."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    empty = tmp_path / "empty"
    empty.mkdir()
    code = f"import sys; sys.path.insert(0, {str(site)!r}); from flacheck import cli; cli.main()"
    arguments = [
        "scan",
        "-k",
        "chunk_local_cumsum",
        "--triton",
        "3.5.1",
        "--target",
        "sm90",
        "--format",
        "jsonl",
    ]
    outcome = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", code, *arguments],
        cwd=empty,
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert '"verdict": "compiles"' in outcome.stdout or '"verdict":"compiles"' in outcome.stdout
    assert sorted(path.name for path in empty.iterdir()) == [".flacheck"]
