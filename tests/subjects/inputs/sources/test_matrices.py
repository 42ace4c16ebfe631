"""A matrix as the subject of a command: flacheck's own kernels and those of its packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from flacheck.errors import UsageError
from flacheck.model import Launch, Stubbed
from flacheck.source.packages.package import Package
from flacheck.subjects.inputs import corpus, matrix
from flacheck.subjects.inputs.expand import Selection
from flacheck.subjects.inputs.matrix import DeclaredLaunch, Matrix
from flacheck.subjects.inputs.sources import kernels_of, matrices
from flacheck.subjects.inputs.subject import Subject
from tests.subjects.inputs.launches.test_launches import HEADER, launch, write

OWN = "retention.chunk_fwd_o"
SPEC = "shop==1.0"
TENSOR = {"dtype": "{dtype}", "align": 16}


def read(folder: Path, text: str) -> Matrix:
    (folder / "mine.yaml").write_text(text)
    return matrix.find(str(folder / "mine.yaml"))


def package(digest: str = "0") -> Package:
    return Package("shop", "1.0", "/nowhere", digest, {})


def sources_of(read: Matrix, packages: Mapping[str, Package]) -> dict[str, Any]:
    return {each.kernel.name: each for each in matrices.sources_of(read, packages)}


def test_a_matrix_without_launches_is_about_flachecks_own_kernels(tmp_path: Path) -> None:
    """The kernels have their declared launches."""
    sources = sources_of(read(tmp_path, "version: 1\naxes: {target: [sm90]}\n"), {})
    assert sources == corpus.load()


def test_launches_of_an_own_kernel_stand_in_for_its_own() -> None:
    """The kernel's own omissions, configurations and keys stay."""
    declaration = DeclaredLaunch(Launch({"q": TENSOR}))
    (source,) = matrices.sources_of(Matrix("m", "m", (), launches={OWN: (declaration,)}), {})
    (own,) = corpus.load()[OWN].launches
    assert source.kernel == corpus.load()[OWN].kernel
    assert source.launches == (Launch({"q": TENSOR}, own.omitted, own.configs, own.keys),)


def test_a_packages_kernels_are_loaded_from_it() -> None:
    """Only launches of this package count; another edition has other kernels."""
    launches = {
        "shop.ops:k": (
            DeclaredLaunch(Launch({"x": TENSOR}), "shop==1.*"),
            DeclaredLaunch(Launch({"y": TENSOR}), "shop==2.*"),
        ),
        "shop.ops:new": (DeclaredLaunch(Launch({"x": TENSOR}), "shop==2.*"),),
    }
    matrix = Matrix("m", "m", (), launches=launches, forms={"shop.ops:k": ("sum", "chunk")})
    (source,) = matrices.package_sources(matrix, SPEC, package())
    assert source.kernel.origin == Stubbed("shop.ops", "k")
    assert (source.kernel.package, source.kernel.operator, source.kernel.form) == (
        SPEC,
        "sum",
        "chunk",
    )
    assert [each.args for each in source.launches] == [{"x": TENSOR}]
    (tuned_source,) = matrices.package_sources(matrix, SPEC, package("1"))
    assert tuned_source.kernel.digest != source.kernel.digest


def test_a_matrix_with_launches_leaves_the_corpus_out_unless_it_names_it() -> None:
    """A matrix that declares launches contains only those."""
    launches = {"shop.ops:k": (DeclaredLaunch(Launch({"x": TENSOR})),)}
    packages = {SPEC: package()}
    alone = Matrix("m", "m", (), (SPEC,), launches)
    assert list(sources_of(alone, packages)) == ["shop.ops:k"]
    both = Matrix("m", "m", (matrix.Block({"kernel": ("retention.*",)}),), (SPEC,), launches)
    assert set(sources_of(both, packages)) == {*corpus.load(), "shop.ops:k"}


def test_a_package_is_provided_where_a_selected_kernel_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan of flacheck's own kernels installs nothing."""
    requests: list[str] = []

    def provide(spec: str) -> Package:
        requests.append(spec)
        return package()

    monkeypatch.setattr(matrices, "provide_package", provide)
    text = f"version: 1\npackages: [{SPEC}]\nlaunches:\n  shop.ops:k:\n"
    text += "    - args: {x: {dtype: bf16, align: 16}}\naxes: {target: [sm90]}\n"
    read(tmp_path, text)
    subject = Subject(str(tmp_path / "mine.yaml"))
    assert matrices.kernels(subject, Selection(kernels=("chunk_fwd_o",))).packages == {}
    assert requests == []
    assert list(matrices.kernels(subject, Selection(kernels=("k",))).packages) == [SPEC]
    with pytest.raises(UsageError, match="did you mean"):
        matrices.kernels(subject, Selection(kernels=("chunk_fwd_oo",)))


def test_the_suffix_decides_who_reads(tmp_path: Path) -> None:
    """A launches file, with a line too; a matrix by file or by name."""
    file = write(tmp_path, HEADER, launch())
    for name in (str(file), f"{file}:2"):
        assert kernels_of(Subject(name), Selection()).matrix.name == "l"
    (tmp_path / "mine.yaml").write_text("version: 1\naxes: {target: [sm90]}\n")
    assert kernels_of(Subject(str(tmp_path / "mine.yaml")), Selection()).matrix.name == "mine"
    assert kernels_of(Subject(), Selection()).matrix.name == "quick"
