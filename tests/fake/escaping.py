"""A compiler that tries to break out of its worker, and reports which ways were closed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .confinement import check_escapes  # type: ignore[import-not-found]  # the guest's, where it is loaded


class Worker:
    def __init__(self, config: dict[str, Any]) -> None:
        self._outside = config["outside"]
        self._scratch = config["scratch"]

    def tolerates(self, error: BaseException) -> bool:
        return False

    def run(self, request: dict[str, Any], mark: Any) -> dict[str, Any]:
        Path(self._outside).chmod(0o777)
        with open(os.path.join(self._scratch, "own"), "w") as file:
            file.write("a worker works")
        facts = {**check_escapes(self._outside), "pid": os.getppid()}
        return {"facts": facts, "resources": {"threads": 128}}
