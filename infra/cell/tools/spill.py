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
MOST_FILES, MOST_TOGETHER = 400, 40 * MOST_BYTES
"""Of all outputs, and how many bytes they take together; of more, the oldest go."""
IMAGE = "image"
"""The fact of a result that an image belongs to it."""
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def is_image(content: bytes) -> bool:
    return b"\0" in content and bool(media_type_of(content))


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def as_kept(output: bytes) -> bytes:
    """What is kept of an output: redacted, then cut. The last word of one that was cut before is left out, as it may be
    a part of a key."""
    if len(output) >= MOST_BYTES:
        output = output[:MOST_BYTES]
        end = max(output.rfind(b"\n"), output.rfind(b" "), MOST_BYTES - TORN_BYTES - 1)
        output = output[: end + 1]
    return redacted_bytes(output)[:MOST_BYTES]


class Spill:
    """The last outputs of one checkout."""

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout
        self._directory = os.path.join(checkout, OUTPUTS)

    def keep(self, output: bytes) -> str:
        """Write it down, unless it is there; gives the path from the checkout. Raises OSError."""
        os.makedirs(self._directory, exist_ok=True)
        kept = as_kept(output)
        path = f"{OUTPUTS}/{digest_of(kept)[:16]}.txt"
        whole = os.path.join(self._checkout, path)
        if os.path.isfile(whole):
            os.utime(whole)
        else:
            self._make_room(len(kept))
            RedactedFile(whole).replace(kept)
        return path

    def noted(self, output: bytes, what: str) -> tuple[tuple[str, ...], str]:
        """The same, with words for it; a full disk costs no result."""
        try:
            path = self.keep(output)
        except OSError as error:
            return (), f"the rest could not be kept: {error.strerror}"
        return (path,), f"{what}: {path}"

    def keep_image(self, content: bytes) -> dict[str, Any]:
        """The same of an image, which is not cut; gives what is known of it. Raises OSError."""
        os.makedirs(self._directory, exist_ok=True)
        media_type = media_type_of(content)
        path = f"{OUTPUTS}/{digest_of(content)[:16]}.{ENDINGS[media_type]}"
        self._make_room(len(content))
        RedactedFile(os.path.join(self._checkout, path)).replace(content)
        return {"media_type": media_type, "path": path}

    def _make_room(self, wanted: int) -> None:
        """The oldest go."""
        with os.scandir(self._directory) as entries:
            found = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
            stats = [(entry.stat(follow_symlinks=False), entry.path) for entry in found]
        files = sorted((stat.st_mtime_ns, stat.st_size, path) for stat, path in stats)
        count, together = len(files), wanted + sum(size for _, size, _ in files)
        for _, size, path in files:
            if count < MOST_FILES and together <= MOST_TOGETHER:
                return
            os.unlink(path)
            count, together = count - 1, together - size
