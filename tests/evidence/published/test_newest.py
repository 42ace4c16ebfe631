"""New releases in the list of combinations."""

from __future__ import annotations

from pathlib import Path

from flacheck.capabilities.results.newest import add, new_entries
from flacheck.evidence.published.combinations import read_combinations

TEXT = """version: 1
combinations:
  - {package: one, versions: ['1.2'], triton: [3.7.1, 3.8.0], targets: [sm80, sm90], ship: true}
  - {package: one, versions: ['1.1'], triton: [3.6.0], targets: [sm90], ship: true}
  - {package: two, versions: [0.9.0], triton: [3.9.0], targets: [sm90], ship: true}
  - {package: three, versions: [0.9.0], triton: [3.5.0], targets: [sm90]}
  - {matrix: full, triton: [3.5.0], targets: [sm90], configs: own, ship: true}
"""


def test_a_new_triton_and_a_new_version_are_added(tmp_path: Path) -> None:
    """New releases are added for shipped packages on their newest version's GPUs."""
    file = tmp_path / "c.yaml"
    file.write_text(TEXT)
    versions = {"one": "1.10", "two": "0.9.0"}
    releases = ["3.7.1", "3.8.0", "3.9.0", "3.10.0"]
    entries = new_entries(read_combinations(file), releases, versions.__getitem__)
    assert [(each.package, each.version, each.releases, each.targets) for each in entries] == [
        ("one", "1.10", ("3.7.1", "3.8.0", "3.9.0", "3.10.0"), ("sm80", "sm90")),
        ("two", "0.9.0", ("3.10.0",), ("sm90",)),
    ]
    before = read_combinations(file)
    add(file, entries)
    after = read_combinations(file)
    assert after[: len(before)] == before
    combinations = [(each.about, each.target, each.is_shipped) for each in after[len(before) :]]
    assert combinations == [
        ("one==1.10", "sm80", True),
        ("one==1.10", "sm90", True),
        ("two==0.9.0", "sm90", True),
    ]


def test_without_a_new_release_nothing_is_added(tmp_path: Path) -> None:
    """Without a new release the file is not changed."""
    file = tmp_path / "c.yaml"
    file.write_text(TEXT)
    versions = {"one": "1.2", "two": "0.9.0"}
    assert new_entries(read_combinations(file), ["3.8.0"], versions.__getitem__) == []
    add(file, [])
    assert file.read_text() == TEXT
