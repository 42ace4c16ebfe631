"""FC8xx: CUDA C++ through nvcc."""

from __future__ import annotations

from flacheck.rules.base import Rule, text

_ALIAS = r'(?: \(aka "[^"\n]+"\))?'

CUDA = (
    Rule(
        code="FC801",
        name="no-conversion",
        title="nvcc: no conversion between two types",
        summary="A value of one type initialises another, and no conversion exists between them.",
        cause="Two types that are the same in one instantiation of a template differ in another. In Hopper attention "
        "kernels V's pipeline parameters are built from K's, which only works while both load the same way.",
        remedy="Build the value from its own type's fields, or leave this instantiation (mostly an fp8 one) out of the "
        "build.",
        patterns=text(
            r"error(?: #\S+)?: no suitable (?:user-defined )?conversion(?: function)? from "
            rf'"(?P<source>[^"\n]+)"{_ALIAS} to "(?P<wanted>[^"\n]+)"{_ALIAS} exists',
        ),
        links=("https://github.com/Dao-AILab/flash-attention/issues/1478",),
        specificity=80,
    ),
)
