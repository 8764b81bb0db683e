"""Long outputs as files beside the logs: the model is shown two ends of one, and can search the rest."""

from __future__ import annotations

import os
import secrets

from infra.contract.files import write_whole

DIRECTORY = "logs/outputs"
MOST_BYTES = 2 << 20
"""Of one output: logs that grow by `limits.log_bytes` in a minute are cut by the watcher."""
MOST_FILES = 20


class Outputs:
    """The last outputs of one checkout."""

    def __init__(self, checkout: str) -> None:
        self._directory = os.path.join(checkout, DIRECTORY)

    def keep(self, output: bytes) -> str:
        """Write it down; gives the path from the checkout. Raises OSError."""
        os.makedirs(self._directory, exist_ok=True)
        self._make_room()
        name = f"{_number(os.listdir(self._directory)):06}-{secrets.token_hex(2)}.txt"
        write_whole(os.path.join(self._directory, name), output)
        return f"{DIRECTORY}/{name}"

    def _make_room(self) -> None:
        """The oldest go, by the numbers in their names."""
        names = sorted(os.listdir(self._directory))
        for name in names[: max(0, len(names) - MOST_FILES + 1)]:
            path = os.path.join(self._directory, name)
            if not os.path.isdir(path):
                os.unlink(path)


def _number(names: list[str]) -> int:
    return max((int(name[:6]) for name in names if name[:6].isdigit()), default=0) + 1
