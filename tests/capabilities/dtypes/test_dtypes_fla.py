"""The RWKV7 layer of three releases of FLA, and copies of it in a user's own file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from flacheck import toolchains
from flacheck.capabilities.dtypes import following
from flacheck.capabilities.dtypes.examination import examine
from flacheck.capabilities.dtypes.following import DtypesQuestion
from flacheck.capabilities.dtypes.observation import Mode
from flacheck.engine.package_builds import provide_package
from flacheck.errors import Exit

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch"),
]
RWKV7 = "fla.layers.rwkv7:RWKV7Attention"
ADDCMUL = "k = k.addcmul(k * (a - 1), self.k_a)"
FP16 = Mode("fp16", "fp32")
# The same promotion, in a copy whose parameter is called something else.
COPIES = {
    "addcmul": "k = torch.addcmul(k, k * (a - 1), self.key_gate)",
    "plus": "k = k + k * (a - 1) * self.key_gate",
    "where": "k = torch.where(a > 0.5, k, self.key_gate)",
    "lerp": "k = torch.lerp(k, k * (a - 1), self.key_gate)",
    "in_place": "k = k.clone().addcmul_(k * (a - 1), self.key_gate)",
}


def question(version: str, *targets: str) -> DtypesQuestion:
    (choice,) = toolchains.resolve(["3.5.1"]).choices
    package = provide_package(f"flash-linear-attention=={version}")
    return DtypesQuestion(targets, (FP16,), toolchains.provide(choice), package)


def test_the_line_and_the_assertion_of_0_1_2() -> None:
    """The addcmul promotes k, and the operator's assertion fails."""
    result = examine(question("0.1.2", RWKV7))
    (finding,) = result.findings
    assert (finding.code, finding.file, finding.line) == ("FC701", "fla/layers/rwkv7.py", 179)
    assert (finding.source, finding.operand, finding.parameter) == (ADDCMUL, "self.k_a", "k_a")
    assert finding.error_at_end is not None
    assert finding.error_at_end.source == "assert q.dtype == k.dtype == v.dtype"
    assert finding.error_at_end.file.endswith("dplr/chunk.py")
    assert result.exit_code == Exit.FINDINGS


def test_the_mixed_kernels_of_0_2_0() -> None:
    """Forward and backward kernels with mixed dtypes are named."""
    (finding,) = examine(question("0.2.0", RWKV7)).findings
    assert (finding.line, finding.source) == (185, ADDCMUL)
    kernels = {each.kernel.rpartition(":")[2] for each in finding.reached_kernels}
    assert kernels == {
        "chunk_dplr_fwd_A_kernel_intra_sub_intra",
        "chunk_dplr_bwd_kernel_intra",
    }
    forward = finding.reached_kernels[0].dtypes
    assert (forward["q"], forward["k"]) == ("fp16", "fp32")


def test_0_2_2_is_clean() -> None:
    """Float32 by autocast's own rules is not a finding."""
    result = examine(question("0.2.2", RWKV7))
    assert result.findings == ()
    assert result.launch_counts[RWKV7] > 0
    assert result.exit_code == Exit.OK


def test_renamed_copies_in_a_file_of_the_users(tmp_path: Path) -> None:
    """Promotions are found under other names and in other forms; in place stays float16."""
    package = provide_package("flash-linear-attention==0.1.2")
    layer = (Path(package.path) / "fla" / "layers" / "rwkv7.py").read_text()
    text = layer.replace(ADDCMUL, "PROMOTION").replace("RWKV7Attention", "Mixer")
    text = text.replace("k_a", "key_gate")
    targets = []
    for name, line in COPIES.items():
        file = tmp_path / f"{name}.py"
        file.write_text(text.replace("PROMOTION", line))
        targets.append(f"{file}:Mixer")
    copies = question("0.1.2", *targets)
    by_copy = {
        each.subject.partition(":")[0]: each
        for each in following.findings(following.follow(copies, tmp_path), (FP16,))
    }
    assert by_copy.keys() == COPIES.keys() - {"in_place"}
    for name, finding in by_copy.items():
        assert (finding.line, finding.source) == (179, COPIES[name])
        assert finding.operand == "self.key_gate"
    assert [name for name, each in by_copy.items() if each.code == "FC703"] == ["lerp"]
    assert all(by_copy[name].error_at_end for name in by_copy)
