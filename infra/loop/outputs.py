"""Long outputs as files beside the logs: the model is shown two ends of one, and can search the rest.

A file is named by its content, so that the same output again is the same result again."""

from __future__ import annotations

import hashlib
import os

from infra.contract.files import write_whole

DIRECTORY, SUFFIX = "logs/outputs", ".txt"
MOST_BYTES = 1 << 19
"""Of one output: logs that grow by `limits.log_bytes` in a minute are cut by the watcher."""
MOST_FILES = 40


class Outputs:
    """The last outputs of one checkout."""

    def __init__(self, checkout: str) -> None:
        self._directory = os.path.join(checkout, DIRECTORY)

    def keep(self, output: bytes) -> str:
        """Write it down, unless it is there; gives the path from the checkout. Raises OSError."""
        os.makedirs(self._directory, exist_ok=True)
        name = hashlib.sha256(output).hexdigest()[:16] + SUFFIX
        path = os.path.join(self._directory, name)
        if os.path.isfile(path):
            os.utime(path)
        else:
            self._make_room()
            write_whole(path, output)
        return f"{DIRECTORY}/{name}"

    def _make_room(self) -> None:
        """The oldest go."""
        with os.scandir(self._directory) as entries:
            found = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
            files = [(entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in found]
        for _, path in sorted(files)[: max(0, len(files) - MOST_FILES + 1)]:
            os.unlink(path)
