"""Changes in the files of a compiler or a package while it is in use."""

from __future__ import annotations

from pathlib import Path

from flacheck.store import Store
from flacheck.toolchains import intact


def test_a_changed_source_is_found_and_a_store_in_the_project_is_none(tmp_path: Path) -> None:
    """A scan of a project with `--store` in it adds results all the time."""
    source = tmp_path / "kernel.cu"
    source.write_text("int x;")
    with Store.open(tmp_path / "results") as store:
        states = intact.states(tmp_path)
        store.begin_run({})
        assert intact.first_change(states) is None
    assert intact.first_change(states) is None
    source.write_text("int x, y;")
    assert intact.first_change(states) == str(source)
