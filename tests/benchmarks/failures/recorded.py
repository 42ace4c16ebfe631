"""Launches that packages make, on GPUs and releases where they fail.

Record the launches of a package once beforehand:

    flacheck scan --package NAME==VERSION --triton 3.6.0 --target sm90 --dry-run --captured P.zip
    unzip -p P.zip '*/launches.jsonl' > DIR/NAME-VERSION.jsonl
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RecordedLaunch:
    """A launch in a package's launches file, by the package, the end of its kernel's name and the
    dtype of its first pointer."""

    name: str
    package: str
    kernel: str
    dtype: str
    triton: str
    target: str

    def launches_file(self, folder: Path) -> str:
        """The text of a launches file that holds this launch alone, read in this folder."""
        file = folder / f"{self.package.replace('==', '-')}.jsonl"
        header, *rest = file.read_text().splitlines()
        launches = [launch for launch in map(json.loads, rest) if "kernel" in launch]
        for launch in launches:
            if launch["kernel"].endswith(f":{self.kernel}") and self._is_of_dtype(launch):
                # Only the first launch of a source holds its text.
                texts = [one["text"] for one in launches if _is_text_of(launch, one)]
                whole = {**launch, "text": texts[0]}
                # The lines of call paths stay behind, and what calls it does not matter here.
                whole.pop("paths", None)
                lines = [header, json.dumps(whole), '{"end": true}']
                return "".join(f"{line}\n" for line in lines)
        raise LookupError(f"{file}: no launch of {self.kernel} on {self.dtype}")

    def _is_of_dtype(self, launch: dict[str, Any]) -> bool:
        specs = launch["launch"]["args"].values()
        pointers = [spec["dtype"] for spec in specs if isinstance(spec, dict) and "dtype" in spec]
        return pointers[:1] == [self.dtype]


def _is_text_of(launch: dict[str, Any], other: dict[str, Any]) -> bool:
    same = (other["kernel"], other["source"]) == (launch["kernel"], launch["source"])
    return same and "text" in other


_LIGER = "liger-kernel==0.8.5"
_FLASH = "flash-attention-triton==0.1.1"
_FASTER = "fasterkernels==0.2.0"
_GYM = "attn-gym==0.0.17"
LAUNCHES = (
    RecordedLaunch(
        "liger-ce", _LIGER, "liger_vocab_parallel_ce_forward_kernel", "bf16", "3.2.0", "sm75"
    ),
    RecordedLaunch(
        "liger-neighbours",
        _LIGER,
        "_fused_neighborhood_attention_grad_attn_kernel",
        "bf16",
        "3.2.0",
        "sm75",
    ),
    RecordedLaunch("liger-moe-sm120", _LIGER, "_fused_down_proj_kernel", "bf16", "3.3.0", "sm120"),
    RecordedLaunch(
        "liger-moe-sm75", _LIGER, "_fused_up_proj_swiglu_kernel", "bf16", "3.3.0", "sm75"
    ),
    RecordedLaunch("liger-moe-dw", _LIGER, "_moe_bwd_dW2_kernel", "fp16", "3.3.0", "sm75"),
    RecordedLaunch(
        "liger-softmax", _LIGER, "_softmax_multi_block_backward_kernel", "bf16", "3.3.0", "sm120"
    ),
    RecordedLaunch(
        "liger-ce-amd", _LIGER, "liger_vocab_parallel_ce_forward_kernel", "fp16", "3.6.0", "gfx942"
    ),
    RecordedLaunch("flash-shared", _FLASH, "_forward_kernel", "fp16", "3.2.0", "sm75"),
    RecordedLaunch("gym-delta", _GYM, "chunk_delta_h_kernel", "bf16", "3.6.0", "sm75"),
    RecordedLaunch(
        "gym-offsets", _GYM, "_prepare_ragged_chunk_offsets_kernel", "i32", "3.2.0", "sm75"
    ),
    RecordedLaunch("gym-work-items", _GYM, "compose_work_items_kernel", "bf16", "3.6.0", "sm75"),
    RecordedLaunch("gym-group-sum", _GYM, "group_sum_kernel", "bf16", "3.2.0", "sm75"),
    RecordedLaunch("fk-break", _FASTER, "_paged_flash_decode_kernel", "bf16", "3.6.0", "sm75"),
    RecordedLaunch("fk-flash", _FASTER, "_flash_attn_fwd_kernel", "bf16", "3.2.0", "sm75"),
)
