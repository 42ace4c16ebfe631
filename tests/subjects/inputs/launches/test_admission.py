"""The sources of launches files that may be compiled."""

from __future__ import annotations

import pytest

from flacheck.errors import UsageError
from flacheck.subjects.inputs.launches.admission import Refused, check_source
from tests.subjects.inputs.launches.test_launches import HEAD, KERNEL

LIBRARY = (
    "from triton.language.extra import libdevice\n\n\n"
    "@triton.constexpr_function\ndef half(n):\n    return n // 2\n\n\n"
    "@triton.jit\ndef k(x: '*fp32', n: tl.int64, B: tl.constexpr):\n"
    "    v, w = (tl.load(x), libdevice.fast_expf(tl.load(x + 1)))\n"
    "    tl.static_assert(half(B) > 1, f'{B}')\n"
    "    tl.store(x, v + w + tl.extra.cuda.libdevice.tanh(v))\n"
)


BODY = "\n\n@triton.jit\ndef k(x, B: tl.constexpr):\n    {}\n"


def refusal(text: str) -> str | None:
    """Why a source is refused; None if it is accepted."""
    try:
        check_source(text)
    except UsageError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        HEAD + "import triton.language.extra.libdevice\n\nA = (1, 2.0, (True,))\n",
        HEAD + BODY.format("tl.store(x, B[0](B[1](tl.load(x))))"),
        HEAD + LIBRARY,
    ],
)
def test_what_kernels_need_is_admitted(text: str) -> None:
    """Helpers, constants, dtypes, annotations, library functions, compile-time functions."""
    assert refusal(text) is None


MODULE_TRICKS = [
    "import os",
    "import triton.runtime",
    "import triton.language.core as tl",
    "from os import system",
    "from . import x",
    "from triton.language import core",
    "from triton import runtime",
    "from triton.language import *",
    "__import__('os').system('true')",
    "x = open('/etc/passwd')",
    "x = tl.core",
    "x = tl.constexpr.__init__",
    "x = tl.constexpr(tl.load)()",
    "x = tl.constexpr(print(1))",
    "x = [i for i in (1, 2)]",
    "x = lambda: 1",
    "x: print('boo') = 1",
    "x = y = 1",
    "tl.load = 1",
    "(a, b) = (1, 2)",
    "__getattr__ = 1",
    "tl = 1",
    "class A: pass",
    "if True: pass",
    "for i in (1,): pass",
    "exec('1')",
    "del tl",
    "raise SystemExit",
    "x = f'{1}'",
    "x = (y := 1)",
    "x = 'a'.join('b')",
    "x = {}['a']",
    "async def f(): pass",
    "def f(): pass",
    "@triton.jit\nclass K: pass",
    "@print\ndef k(): pass",
    "@triton.autotune(configs=[], key=[])\n@triton.jit\ndef k(x): pass",
    "@triton.jit(repr=print)\ndef k(x): pass",
    "@triton.jit(do_not_specialize=['\\ndef evil(x):\\n    tl.core.os.system(1)\\n#'])\ndef k(x): pass",
    "@triton.jit(*[1])\ndef k(x): pass",
    "@triton.jit\n@triton.jit\ndef k(x): pass",
    "@triton.runtime.jit.jit\ndef k(x): pass",
    "@triton.jit\ndef k(x=print(1)): pass",
    "@triton.jit\ndef k(x: print(1)): pass",
    "@triton.jit\ndef k(x) -> print(1): pass",
    "@triton.jit\ndef k(x: 'print(1)'): pass",
    "@triton.jit\ndef k(x, *, y=[].append(1)): pass",
    "@triton.jit\ndef print(x): pass",
    "x = tl.extra.num_warps",
    "x = tl.math.wraps",
    "from triton.language.extra import cuda_libdevice",
    "from triton.language.extra.libdevice import wraps",
    "from triton.language.extra.libdevice import dispatch",
    "from triton.language.extra.libdevice import module_from_spec",
    "import triton.language.extra.libdevice.os",
    "@triton.constexpr_function\ndef f(x, _generator): pass",
    "@triton.constexpr_function\ndef f(x, *, _semantic=None): pass",
    "@triton.constexpr_function\ndef f(**_builder): pass",
    "@triton.constexpr_function\ndef f(**more): pass",
]


BODY_TRICKS = [
    "tl.core.os.system('true')",
    "tl.math.core.os.system('true')",
    "m = tl.core",
    "m = tl",
    "m = tl.math",
    "tl.load.__globals__['os']",
    "x.__class__.__mro__",
    "x.handle.get_context()",
    "x._semantic",
    "k.fn",
    "k.run(x)",
    "getattr(tl, 'core')",
    "eval('1')",
    "open('/etc/passwd')",
    "__import__('os')",
    "import os",
    "from os import system",
    "(lambda: 1)()",
    "tl.load(x)()",
    "[tl.load][0](x)",
    "k[(1,)](x)",
    "x[(1,)](x)",
    "x[B](x)",
    "y = x\n    y[0](x)",
    "x[0][0](x)",
    "'{0.__class__}'.format(x)",
    "global tl",
    "tl = x",
    "k = x",
    "try:\n        pass\n    except Exception:\n        pass",
    "def inner(): pass",
    "class A: pass",
    "yield x",
    "raise x",
    "del x",
    "tl.extern_elementwise('a', '/tmp/evil.bc', [x], {}, True)",
    "tl.extra.libdevice.core.os",
    "tl.extra.cuda.libdevice.core",
    "triton.runtime.driver",
    "triton.cdiv.fn",
    "y = (z := 1)",
    "y = {'a': 1}",
    "y = undefined_name",
    "print.__self__",
    "await x",
    "tl.extra.libdevice.wraps(k)",
    "tl.extra.libdevice.dispatch(k)",
    "tl.extra.libdevice.cuda_libdevice.abs(x)",
    "tl.extra.libdevice.T",
    "tl.extra.cuda.utils.smid()",
    "tl.extra.spec.loader",
    "tl.extra.modules",
    "tl.extra.module_finder.find_spec('os')",
    "tl.math.wraps(k)",
    "tl.math.semantic.load(x)",
    "tl.math.T",
    "tl.cdiv.fn",
    "tl.load(x, _semantic=B)",
    "tl.load(x, _builder=B)",
    "tl.reduce(x, 0, k, _generator=B)",
    "tl.static_print(f'{x.__class__}')",
    "tl.static_print(f'{x:{B.__class__}}')",
    "tl.static_assert(B, tl.core)",
    "[tl for tl in B]",
    "y = [print.__self__ for i in B]",
    "tl.static_print(tl.load.__wrapped__)",
    "tl.map_elementwise(tl.core.os.system, x)",
    "tl.constexpr(tl).value",
    "'{0.__class__}' % x.__class__",
    "x.value.fn",
    "x.type.__globals__",
    "x.fn.__code__",
]


@pytest.mark.parametrize("trick", MODULE_TRICKS)
def test_nothing_else_is_admitted_at_module_level(trick: str) -> None:
    """Loading a source runs its module, so only inert statements are admitted."""
    with pytest.raises(UsageError, match="source line"):
        check_source(f"{HEAD}{trick}\n")


@pytest.mark.parametrize("trick", BODY_TRICKS)
def test_no_kernel_reaches_outside_the_language(trick: str) -> None:
    """Triton calls what a body names: attributes and names are the language's or the source's own."""
    with pytest.raises(UsageError, match="source line"):
        check_source(HEAD + BODY.format(trick))


@pytest.mark.parametrize(
    "text",
    [
        "# -*- coding: utf-7 -*-\n" + KERNEL,
        "\n# vim: set fileencoding=cp037 :\n" + KERNEL,
        KERNEL.replace("\n", "\r\n"),
        "\ufeff" + KERNEL,
        KERNEL + "\x0c\n",
        KERNEL + "# \u202e\n",
        KERNEL + "\0",
        "x = " + "(" * 5_000 + ")" * 5_000,
        "#" * 1_000_001,
        "x = (",
    ],
)
def test_text_that_another_reader_would_read_otherwise_is_refused(text: str) -> None:
    """Encodings, control characters, depths that break a parser."""
    with pytest.raises(UsageError, match="source line"):
        check_source(text)


def test_a_refusal_names_the_line() -> None:
    """The message has the line at fault."""
    with pytest.raises(UsageError, match="source line 4: import of os"):
        check_source(HEAD + "\nimport os\n")


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("class A: pass", 3, "ClassDef at module level"),
        ("x = tl.core", 3, "triton.language.core is not a name of the language"),
        ("m = tl", 3, "Name where a literal is expected"),
        (BODY.format("m = tl"), 7, "the module tl as a value"),
        (BODY.format("x.handle"), 7, "the attribute .handle"),
        (BODY.format("y = nobody"), 7, "the name nobody, which nothing in the source defines"),
        (BODY.format("tl = x"), 6, "tl hides the module's own tl"),
        (BODY.format("tl.load(x)()"), 7, "a call of something computed"),
    ],
)
def test_a_refusal_says_what_is_refused(text: str, line: int, what: str) -> None:
    """With its line."""
    with pytest.raises(Refused) as refusal:
        check_source(f"{HEAD}{text}\n")
    assert str(refusal.value) == f"source line {line}: {what}"


def test_a_module_keeps_the_name_that_it_was_imported_by() -> None:
    """Bound to another module, a path that was looked at would lead elsewhere."""
    again = "import triton.language as tl\n"
    check_source(HEAD + again)
    with pytest.raises(Refused, match="the name tl cannot be bound"):
        check_source(HEAD + "import triton.language.extra.libdevice as tl\n")


def test_what_was_admitted_is_remembered_and_what_was_refused_is_refused_again() -> None:
    """The captures of several cards hold the same sources."""
    check_source.cache_clear()
    for _ in range(2):
        check_source(KERNEL)
        with pytest.raises(Refused):
            check_source("import os\n")
    assert check_source.cache_info().hits == 1
