"""FC1xx: the front end, from Python source to the first IR."""

from __future__ import annotations

from flacheck.rules.base import Rule, text

FRONTEND = (
    Rule(
        code="FC101",
        name="removed-api",
        title="the kernel uses an API that this release removed",
        summary="The source calls something that older releases of Triton had and this one does not.",
        cause="Triton drops parts of its language between minor releases. Block pointers (`tl.make_block_ptr`, "
        "`tl.advance`) went with 3.9.0, although the names can still be imported there.",
        remedy="Stay below the release that removed it, or move the kernel to what replaces it: tensor descriptors "
        "(`tl.make_tensor_descriptor`) or plain pointers with masks.",
        patterns=text(
            r"(?P<api>Block pointers) have been removed in favor of",
            r"No module named '(?P<api>triton\.ops(?:\.\w+)*)'",
            r"module 'triton(?:\.language)?' has no attribute '(?P<api>libdevice|make_block_ptr|advance)'",
        ),
        bad=("triton>=3.9.0",),
        good=("triton>=3.0.0,<3.9.0",),
        links=(
            "https://github.com/intel/intel-xpu-backend-for-triton/issues/7781",
            "https://github.com/pytorch/pytorch/issues/191012",
            "https://github.com/triton-lang/triton/issues/4236",
        ),
        specificity=80,
    ),
)
