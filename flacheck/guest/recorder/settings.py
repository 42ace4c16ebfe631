"""What a capture was asked to do, and how that reaches the processes it starts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field

VARIABLE = "FLACHECK_CAPTURE_SETTINGS"


@dataclass(frozen=True)
class Settings:
    """`output` is the launches file; `card` a row of the target table, None for the real device;
    `packages` maps a folder to the `name==version` whose modules lie in it; `package` goes into the
    header.
    """

    output: str
    card: dict | None = None
    packages: dict = field(default_factory=dict)
    package: str | None = None

    def environment(self) -> dict[str, str]:
        """Variables for a child process."""
        return {VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def from_environment() -> Settings | None:
        text = os.environ.get(VARIABLE)
        return Settings(**json.loads(text)) if text else None
