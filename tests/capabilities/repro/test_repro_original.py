"""The start of a reduction: a kernel cut out, or found in its package's sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.original import (
    NotReproduced,
    cut_out,
    with_autotuner,
    with_refused_key,
)
from flacheck.capabilities.repro.passes.autotuner import configs_and_keys
from flacheck.model import Attempt, Cell, Cut, Kernel, Launch, Outcome, Stubbed
from flacheck.source.packages.package import Package
from tests.made_specimens import HEAD

SOURCE = HEAD + "@triton.jit\ndef kernel(x, n, K: tl.constexpr, EVEN: tl.constexpr):\n    pass\n"
ORIGIN = Stubbed("pack.a", "kernel")


class CuttingCompilers:
    """Three releases, of which some can import the kernel and cut it out."""

    def __init__(self, **answers: Attempt) -> None:
        self.releases = {f"triton=={version}": None for version in ("3.1.0", "3.2.0", "3.3.0")}
        self.packages: dict[str, Package] = {}
        self.asked: list[str] = []
        self._answers = answers

    def types_on(self, release: str) -> Any:
        """Return a front end that is never called."""

    def ask(self, cell: Cell, **changes: Any) -> Attempt:
        assert changes == {"op": "cut", "until": None}
        self.asked.append(cell.toolchain)
        import_error = Attempt(Outcome.RAISED, log="Traceback …\nImportError: gone")
        return self._answers.get("v" + cell.toolchain[8:].replace(".", "_"), import_error)


def cut() -> Attempt:
    facts = {"text": SOURCE, "qualname": "kernel", "heuristics": {"EVEN": True}}
    return Attempt(Outcome.FINISHED, facts=facts)


def cell(origin: Any = ORIGIN, **more: Any) -> Cell:
    launch = Launch({"K": {"constexpr": 64}, "x": {"dtype": "fp16", "align": 16}}, **more)
    kernel = Kernel("pack.a:kernel", None, "0", origin)
    return Cell(kernel, "triton==3.2.0", "sm90", launch, {"num_warps": 8})


def test_a_kernel_is_cut_out_where_it_fails() -> None:
    """Heuristics become constexprs, in the order of the parameters."""
    compilers = CuttingCompilers(v3_2_0=cut())
    specimen = cut_out(cell(), compilers)
    assert compilers.asked == ["triton==3.2.0"]
    assert list(specimen.args) == ["x", "K", "EVEN"]
    assert specimen.args["EVEN"] == {"constexpr": True}
    assert (specimen.source, specimen.name) == (SOURCE, "kernel")
    assert (specimen.target, specimen.options) == ("sm90", {"num_warps": 8})


def test_a_configuration_that_an_autotuner_tried_is_cut_out_with_its_constants() -> None:
    """Constants of the configuration and of heuristics become arguments."""
    configs = ({"kwargs": {"K": 32}, "num_warps": 8}, {"kwargs": {"K": 64}, "num_warps": 4})
    bare = cell(Cut(SOURCE, "kernel"))
    even = {"EVEN": {"constexpr": False}}
    launch = Launch({"x": {"dtype": "fp16"}}, ("K", "EVEN"), configs, heuristics=even)
    specimen = cut_out(replace(bare, launch=launch, stage="trial"), CuttingCompilers())
    assert specimen.args == {"x": {"dtype": "fp16"}, "K": {"constexpr": 32}, **even}
    assert specimen.stage == "compile"
    assert specimen.options == {"num_warps": 8}


def test_another_release_imports_what_the_failing_one_cannot() -> None:
    """The newest other release that imports the kernel cuts it out."""
    compilers = CuttingCompilers(v3_1_0=cut())
    assert cut_out(cell(), compilers).source == SOURCE
    assert compilers.asked == ["triton==3.2.0", "triton==3.3.0", "triton==3.1.0"]


def test_a_kernel_that_no_release_imports_is_not_reproduced() -> None:
    """The error has the reason of every release."""
    refusal = Attempt(Outcome.FINISHED, facts={"reason": "it is no plain function"})
    with pytest.raises(NotReproduced) as error:
        cut_out(cell(), CuttingCompilers(v3_2_0=refusal))
    assert str(error.value) == (
        "pack.a:kernel cannot be cut out of its program; triton==3.2.0: it is no plain function; "
        "triton==3.3.0: ImportError: gone; triton==3.1.0: ImportError: gone"
    )


def test_a_recorded_source_is_taken_as_it_is() -> None:
    """A recorded source needs no compiler."""
    compilers = CuttingCompilers()
    specimen = cut_out(cell(Cut(SOURCE, "kernel")), compilers)
    assert specimen.source == SOURCE
    assert compilers.asked == []


def test_an_autotuners_run_is_cut_out_with_its_autotuner() -> None:
    """The specimen has the launch's configurations and keys."""
    configs = ({"kwargs": {}, "num_warps": 2}, {"kwargs": {}, "num_warps": 8})
    tuned_cell = cell(configs=configs, keys=("K",))
    specimen = with_autotuner(tuned_cell, CuttingCompilers(v3_2_0=cut()))
    assert specimen.stage == "autotune"
    assert configs_and_keys(specimen) == (list(configs), ["K"])


def package(folder: Path) -> Package:
    """Create a package of two modules whose autotuners have a key that is not a parameter."""
    text = "@triton.autotune(configs=[], key=['K', 'gone'])\n"
    text += "@triton.jit\ndef {}(x, K):\n    helper(x)\n"
    (folder / "pack").mkdir()
    (folder / "pack/a.py").write_text(text.format("first"))
    (folder / "pack/b.py").write_text(text.format("other") + text.format("second"))
    return Package("pack", "1", str(folder), "0", {})


def with_key_of(package: Package, name: str) -> Specimen:
    """Return the start of a reduction for a package whose import fails."""
    compilers = CuttingCompilers(v3_2_0=cut())
    compilers.packages["pack==1"] = package
    kernel = Kernel(name, "pack==1", "0", ORIGIN)
    return with_refused_key(Cell(kernel, "triton==3.2.0", "sm90", None), compilers)


@pytest.mark.parametrize(
    ("kernel", "kernel_name"),
    [("pack.b:second", "second"), ("pack.b:fine", "other"), ("pack.c:other", "first")],
)
def test_a_refused_key_is_found_in_the_sources_of_its_package(
    tmp_path: Path, kernel: str, kernel_name: str
) -> None:
    """The cell's own kernel is preferred, then its module's first, then the first."""
    specimen = with_key_of(package(tmp_path), kernel)
    assert specimen.name == kernel_name
    assert specimen.stage == "import"
    assert configs_and_keys(specimen)[1] == ["K", "gone"]


def test_a_package_without_a_refused_key_is_said() -> None:
    """A package without a literal key is not reproduced."""
    with pytest.raises(NotReproduced, match="no autotuner in pack==1 has a key in plain text"):
        with_key_of(Package("pack", "1", "/nowhere", "0", {}), "pack.b:second")


def test_a_refused_key_without_a_package_is_cut_out(tmp_path: Path) -> None:
    """Without a package, the kernel is cut out."""
    compilers = CuttingCompilers(v3_2_0=cut())
    configs = ({"kwargs": {}, "num_warps": 2},)
    tuned_cell = cell(configs=configs, keys=("K",))
    alone: Specimen = with_refused_key(tuned_cell, compilers)
    assert alone.stage == "autotune"
    assert with_key_of(package(tmp_path), "pack.b:second").name == "second"
