"""Long outputs as files beside the logs: the model is shown two ends of one, and can search the rest.

A file is named by its content, so that the same output again is the same result again."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from infra.cell.doors import media_type_of
from infra.cell.tools import command
from infra.shared.paths import OUTPUTS
from infra.shared.redacted_file import RedactedFile
from infra.shared.secret_shapes import redacted_bytes

TORN_BYTES = 1 << 12
MOST_KEPT = 40
"""Outputs; of more, the oldest go."""
IMAGE = "image"
"""The fact of a result that an image belongs to it."""
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def is_image(content: bytes) -> bool:
    return b"\0" in content and bool(media_type_of(content))


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Spill:
    """The last outputs of one checkout."""

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout

    def keep(self, output: bytes, what: str) -> tuple[tuple[str, ...], str]:
        """Write it down, redacted, and without the end of one that was cut, which may be a part of a key. Gives its
        path from the checkout, and words for it; a full disk costs no result."""
        kept = redacted_bytes(output[: command.MOST_KEPT])
        try:
            path = self._put(kept if len(output) < command.MOST_KEPT else kept[:-TORN_BYTES], "txt")
        except OSError as error:
            return (), f"the rest could not be kept: {error.strerror}"
        return (path,), f"{what}: {path}"

    def keep_image(self, content: bytes) -> dict[str, Any]:
        """An image, which is not cut; gives what is known of it. Raises OSError."""
        media_type = media_type_of(content)
        return {"media_type": media_type, "path": self._put(content, ENDINGS[media_type])}

    def _put(self, content: bytes, ending: str) -> str:
        path = f"{OUTPUTS}/{digest_of(content)[:16]}.{ending}"
        directory = os.path.join(self._checkout, OUTPUTS)
        os.makedirs(directory, exist_ok=True)
        RedactedFile(os.path.join(self._checkout, path)).replace(content)
        with os.scandir(directory) as entries:
            files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        for old in sorted(files, key=lambda each: each.stat().st_mtime_ns)[:-MOST_KEPT]:
            os.unlink(old)
        return path
