"""A compiler that tries to break out of its worker, and reports which ways were closed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .escapes import find_closed_ways  # type: ignore[import-untyped]  # the guest's, where it is loaded


class Worker:
    def __init__(self, config: dict[str, Any]) -> None:
        self._bait = config["bait"]
        self._scratch = config["scratch"]

    def tolerates(self, error: BaseException) -> bool:
        return False

    def run(self, request: dict[str, Any], mark: Any) -> dict[str, Any]:
        Path(self._bait["file"]).chmod(0o777)
        with open(os.path.join(self._scratch, "own"), "w") as file:
            file.write("a worker works")
        return {"facts": find_closed_ways(self._bait), "resources": {"threads": 128}}
