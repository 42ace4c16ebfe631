"""Signatures: equal for one failure on any machine, different for different failures."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.model import Finding
from flacheck.rules import read
from flacheck.rules.signature import bare_name, normalise, signature
from tests.rule_logs import log_of, signature_of


def test_one_assertion_is_one_signature_however_the_process_died() -> None:
    """An abort and an exception of one assertion have one signature."""
    died, raises = (
        "FC308/golden-scan-assertion-3.2.0.log",
        "FC308/golden-scan-assertion-3.3.0.log",
    )
    assert "PassManager::run failed" not in log_of(died)
    assert "PassManager::run failed" in log_of(raises)
    assert signature_of(died) == signature_of(raises)
    assert signature_of(died).startswith("FC308:llir:AddPartialReduce:")


def test_signatures_of_one_failure_agree_over_releases() -> None:
    """One message of two releases has one signature."""
    assert signature_of("FC302/golden-st-matrix-3.3.0.log") == signature_of(
        "FC302/golden-st-matrix-3.3.1.log"
    )
    assert signature_of("FC303/golden-tf32-3.0.0.log") == signature_of(
        "FC303/golden-tf32-3.2.0.log"
    )
    assert signature_of("FC401/golden-bf16-add-3.2.0.log") == signature_of(
        "FC401/golden-bf16-dot-3.1.0.log"
    )
    assert signature_of("FC501/golden-sm90-3.2.0.log") == signature_of(
        "FC501/golden-sm86-3.9.0.log"
    )


def test_signatures_of_different_failures_differ() -> None:
    """Six failures have six signatures."""
    names = [
        "FC302/golden-reshape-outs-3.2.0.log",
        "FC302/golden-st-matrix-3.3.0.log",
        "FC308/golden-reduce-assertion-3.2.0.log",
        "FC302/near-reduce-assertion-3.3.0.log",
        "FC301/golden-bf16-3.3.1.log",
        "FC301/golden-f16-3.3.0.log",
    ]
    assert len({signature_of(name) for name in names}) == len(names)


def test_a_signature_has_the_form_of_the_contract() -> None:
    """A signature has code, stage, function and eight hex digits."""
    assert re.fullmatch(
        r"FC302:ttgir:reshapeOuts:[0-9a-f]{8}",
        signature_of("FC302/golden-reshape-outs-3.2.0.log", "ttgir"),
    )
    assert re.fullmatch(
        r"FC000:-:-:[0-9a-f]{8}", signature(Finding("FC000", "", "error: no"), None)
    )


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        (
            "mlir::triton::LinearLayout::reshapeOuts(llvm::ArrayRef<std::pair<X, int> >) const",
            "reshapeOuts",
        ),
        (
            "LinearLayout mlir::triton::gpu::(anonymous namespace)::choose(MLIRContext *, int)",
            "choose",
        ),
        (
            "virtual LogicalResult {anonymous}::ReduceOpConversion::matchAndRewrite(A, B&) const",
            "matchAndRewrite",
        ),
        ("main", "main"),
    ],
)
def test_the_bare_name_of_a_function(declaration: str, name: str) -> None:
    """Namespaces, templates and arguments are removed."""
    assert bare_name(declaration) == name


PATHS = st.lists(
    st.text(string.ascii_lowercase + string.digits + "._-", min_size=1, max_size=8),
    min_size=1,
    max_size=5,
)


LINES = st.integers(1, 99_999)


@given(path=PATHS, line=LINES, program=st.sampled_from(["python3.11", "python", "triton-opt"]))
def test_an_assertion_keeps_its_signature_wherever_it_was_built(
    path: list[str], line: int, program: str
) -> None:
    """Folder, line and program are not in the signature."""
    log = log_of("FC302/golden-reshape-outs-3.2.0.log")
    other = log.replace(
        "python3.11: /project/lib/Tools/", f"{program}: /{'/'.join(path)}/"
    ).replace(":562:", f":{line}:")
    assert other != log or (line == 562 and path == ["project", "lib", "Tools"])
    assert signature(read(other)[0], "ttgir") == signature(read(log)[0], "ttgir")


@given(
    path=PATHS, line=LINES, column=LINES, ssa=st.integers(0, 9_999), address=st.integers(0, 2**63)
)
def test_a_diagnostic_keeps_its_signature_over_places_and_temporaries(
    path: list[str], line: int, column: int, ssa: int, address: int
) -> None:
    """Paths, positions, SSA names and addresses are not in the signature."""
    other = f"/{'/'.join(path)}/k.py:{line}:{column}: error: operand %{ssa} at {address:#x} does not dominate this use"
    plain = "/a/k.py:1:2: error: operand %7 at 0x10 does not dominate this use"
    assert signature(read(other)[0], "ttgir") == signature(read(plain)[0], "ttgir")
    refused = "k.py:1:2: error: failed to legalize operation 'tt.return' that was explicitly marked illegal"
    newer = f'{refused}: "tt.return"(%{ssa}) : (i32) -> ()'
    assert signature(read(newer)[0], "llir") == signature(read(refused)[0], "llir")


@given(
    name=st.text(string.ascii_lowercase + string.digits + "_", min_size=8, max_size=8), line=LINES
)
def test_an_assembler_error_keeps_its_signature_over_temporary_files(name: str, line: int) -> None:
    """Temporary file names are not in the signature."""
    other = f"ptxas /tmp/tmp{name}.ptx, line {line}; error   : Feature '.bf16' requires .target sm_80 or higher"
    assert signature(read(other)[0], "cubin") == signature_of(
        "FC401/golden-bf16-add-3.2.0.log", "cubin"
    )


@given(needed_bytes=st.integers(1, 10**9), limit=st.integers(1, 10**9))
def test_quantities_are_facts_and_no_identity(needed_bytes: int, limit: int) -> None:
    """Quantities are facts, not part of the signature."""
    log = f"OutOfResources: out of resource: shared memory, Required: {needed_bytes}, Hardware limit: {limit}."
    finding = read(log)[0]
    assert finding.facts == {"required": needed_bytes, "limit": limit}
    assert signature(finding, None) == signature(
        read(log.replace(str(needed_bytes), "7", 1))[0], None
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cub::CUB_300001_SM_900::BlockReduce<T>", "cub::CUB_200700_900_NS::BlockReduce<T>"),
        ("thrust::THRUST_200500_900_NS::pair", "thrust::THRUST_300001_SM_100_NS::pair"),
        ("cuda::std::__4::tuple<int>", "cuda::std::tuple<int>"),
        ("cub::CUB_300001_SM_900", "cub"),
        ("_ZN3cub17CUB_300001_SM_9006DeviceE", "_ZN3cub22CUB_200700_900_1000_NS6DeviceE"),
    ],
)
def test_the_version_of_a_toolkits_library_is_no_part_of_a_failure(one: str, other: str) -> None:
    """The version of a CUDA library is not in the signature."""
    message = 'error: no suitable conversion from "{}" to "float" exists'
    assert normalise(message.format(one)) == normalise(message.format(other))
    assert normalise(message.format(one)) != normalise(message.format("Other"))
