"""Distributions that pip installs one after another into one folder and that share a package."""

from __future__ import annotations

from pathlib import Path

from flacheck.toolchains import wheels


def distribution(folder: Path, name: str, files: dict[str, str]) -> None:
    """Write an installed distribution with its record."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    paths = [*files, f"{info.name}/METADATA", f"{info.name}/RECORD", "../../bin/script"]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in paths))


def test_two_distributions_share_a_package(tmp_path: Path) -> None:
    """The second distribution's modules are added to the first's, as for flash-linear-attention and
    fla-core."""
    folder, aside = tmp_path / "folder", tmp_path / "aside"
    distribution(folder, "outer", {"fla/layers/a.py": "outer"})
    distribution(aside, "core", {"fla/__init__.py": "core", "fla/ops/b.py": "core"})
    wheels.add_distributions(aside, folder)
    assert wheels.contents(folder) == {"outer": "1.0", "core": "1.0"}
    assert (folder / "fla" / "ops" / "b.py").read_text() == "core"
    assert (folder / "fla" / "layers" / "a.py").read_text() == "outer"


def test_what_is_there_stays(tmp_path: Path) -> None:
    """Files of another distribution, and distributions that were installed before."""
    folder, aside = tmp_path / "folder", tmp_path / "aside"
    distribution(folder, "one", {"one.py": "first", "shared.py": "first"})
    distribution(aside, "one", {"one.py": "second", "more.py": "second"})
    distribution(aside, "two", {"shared.py": "second", "two.py": "second"})
    wheels.add_distributions(aside, folder)
    texts = {path.name: path.read_text() for path in folder.glob("*.py")}
    assert texts == {"one.py": "first", "shared.py": "first", "two.py": "second"}
