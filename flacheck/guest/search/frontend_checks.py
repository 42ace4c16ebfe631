"""Checks of recorded launches by Triton's front end.

Nothing is compiled while launches are recorded. Without this check, an inferred argument of the
wrong dtype or with too few strides would show only when the operator can no longer be called again.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from ..engine.messages import Kernel
from ..recorder import frontend
from ..recorder.recorder import Recorder
from .attempts import CaughtError
from .trust import LaunchTrust

# Checks of one kernel: if none succeeded by then, others probably fail, too.
_MAX_CHECKS = 240
# The kind of the error of a launch that the front end refuses.
REFUSED = "KernelRefused"
# A kernel's name with the form of its arguments, see `_argument_form`.
_LaunchForm = tuple[str, str]


class FrontendChecks:
    """Collects launches while an operator is called and checks them after the call.

    Attributes:
        refusals: kernels without an accepted launch, each with the front end's last message.
        is_thorough: True to check launches of accepted kernels as well.
    """

    def __init__(self, recorder: Recorder, trust: LaunchTrust) -> None:
        self._recorder = recorder
        self._trust = trust
        trust.answer_about = self._answer_about
        # The forms of launches by their identities.
        self._forms: dict[str, _LaunchForm] = {}
        recorder.on_arrival = self._add_launch
        self._pending: dict[str, tuple[Kernel, Mapping[str, Any]]] = {}
        self._accepted_kernels: set[str] = set()
        self._errors: dict[_LaunchForm, Exception | None] = {}
        self._check_counts: collections.Counter[str] = collections.Counter()
        self.refusals: dict[str, str] = {}
        self.is_thorough = False
        self._is_set_up = False

    @property
    def check_count(self) -> int:
        """The number of checks so far."""
        return self._check_counts.total()

    def _add_launch(self, kernel: str, function: Kernel, arguments: Mapping[str, Any]) -> None:
        """Note the form of a launch, and queue the launch for a check."""
        self._trust.add_kernel(kernel)
        identity = self._trust.latest
        if identity not in self._forms:
            # A repeated launch has the form of the first one.
            self._forms[identity] = (kernel, _argument_form(function, arguments))
        if kernel in self._accepted_kernels and not self.is_thorough:
            return
        if self._check_counts[kernel] < _MAX_CHECKS:
            # The first launch of a call is as informative as its later launches.
            self._pending.setdefault(kernel, (function, dict(arguments)))

    def _answer_about(self, identity: str) -> Any:
        """Return the error of a launch, None for an accepted one and `...` for an unchecked one."""
        return self._errors.get(self._forms.get(identity, ("", "")), ...)

    def accept_pending(self) -> None:
        """Accept the launches since the last check of kernels without a refused launch, unchecked.

        A launch whose arguments are certain is kept and compiled whether it is refused or not.
        """
        for kernel, (function, arguments) in list(self._pending.items()):
            if kernel not in self.refusals:
                del self._pending[kernel]
                self._errors.setdefault((kernel, _argument_form(function, arguments)), None)
                self._accepted_kernels.add(kernel)

    def check_pending(self) -> CaughtError | None:
        """Check the launches since the last check; return the first error, with its line."""
        pending = self._pending
        self._pending = {}
        first: CaughtError | None = None
        for kernel, (function, arguments) in pending.items():
            form = (kernel, _argument_form(function, arguments))
            if form not in self._errors:
                try:
                    self._errors[form] = self._check(kernel, function, arguments)
                except BaseException:
                    # The check timed out: a kernel that takes so long is not checked again.
                    self._accepted_kernels.add(kernel)
                    raise
            error = self._errors[form]
            if error is None:
                self._accepted_kernels.add(kernel)
                self.refusals.pop(kernel, None)
            else:
                message = frontend.last_message(error)
                if kernel not in self._accepted_kernels:
                    self.refusals[kernel] = message
                text = f"{kernel} does not take its arguments: {message}"
                line = str(getattr(getattr(error, "node", None), "lineno", 0))
                first = first or CaughtError(REFUSED, text, (line,), "")
        return first

    def _check(
        self, kernel: str, function: Kernel, arguments: Mapping[str, Any]
    ) -> Exception | None:
        """Check one launch."""
        if not self._is_set_up:
            self._is_set_up = True
            frontend.set_up()
        self._check_counts[kernel] += 1
        return frontend.argument_error(self._recorder.refusal(function, arguments))


def _argument_form(function: Kernel, arguments: Mapping[str, Any]) -> str:
    """Return the properties of arguments that the front end may depend on."""
    forms = []
    for parameter in function.params:
        value: Any = arguments.get(parameter.name)
        if hasattr(value, "dtype"):
            form = str(value.dtype)
        elif isinstance(value, (tuple, list)):
            form = str(len(value))
        elif hasattr(value, "block_shape"):
            form = f"{value.base.dtype} {value.block_shape}"
        elif parameter.is_constexpr:
            form = repr(value)
        else:
            form = type(value).__name__
        forms.append(form)
    return "; ".join(forms)
