"""Long outputs as files beside the logs: the model is shown two ends of one, and can search the rest.

A file is named by its content, so that the same output again is the same result again."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from infra.cell.media_types import media_type_of
from infra.shared.paths import OUTPUTS
from infra.shared.redacted_file import RedactedFile
from infra.shared.secret_shapes import redacted_bytes

MOST_BYTES = 1 << 19
"""Of one output: logs that grow by `limits.log_bytes` in a minute are cut by the watcher."""
TORN_BYTES = 1 << 12
MOST_TOGETHER = 40 * MOST_BYTES
"""Of all outputs; of more, the oldest go."""
IMAGE = "image"
"""The fact of a result that an image belongs to it."""
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def is_image(content: bytes) -> bool:
    return b"\0" in content and bool(media_type_of(content))


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def as_kept(output: bytes) -> bytes:
    """What is kept of an output: redacted, and the end of one that was cut left out, as it may be a part of a key."""
    kept = redacted_bytes(output[:MOST_BYTES])
    return kept if len(output) < MOST_BYTES else kept[:-TORN_BYTES]


class Spill:
    """The last outputs of one checkout."""

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout

    def keep(self, output: bytes) -> str:
        """Write it down; gives the path from the checkout. Raises OSError."""
        return self._put(as_kept(output), "txt")

    def noted(self, output: bytes, what: str) -> tuple[tuple[str, ...], str]:
        """The same, with words for it; a full disk costs no result."""
        try:
            path = self.keep(output)
        except OSError as error:
            return (), f"the rest could not be kept: {error.strerror}"
        return (path,), f"{what}: {path}"

    def keep_image(self, content: bytes) -> dict[str, Any]:
        """The same of an image, which is not cut; gives what is known of it. Raises OSError."""
        media_type = media_type_of(content)
        return {"media_type": media_type, "path": self._put(content, ENDINGS[media_type])}

    def _put(self, content: bytes, ending: str) -> str:
        path = f"{OUTPUTS}/{digest_of(content)[:16]}.{ending}"
        os.makedirs(os.path.join(self._checkout, OUTPUTS), exist_ok=True)
        self._make_room(len(content))
        RedactedFile(os.path.join(self._checkout, path)).replace(content)
        return path

    def _make_room(self, wanted: int) -> None:
        with os.scandir(os.path.join(self._checkout, OUTPUTS)) as entries:
            found = [(entry.stat(), entry.path) for entry in entries if entry.is_file(follow_symlinks=False)]
        together = wanted + sum(stat.st_size for stat, _ in found)
        for stat, path in sorted(found, key=lambda each: each[0].st_mtime_ns):
            if together <= MOST_TOGETHER:
                return
            os.unlink(path)
            together -= stat.st_size
