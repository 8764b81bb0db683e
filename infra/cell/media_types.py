"""Which of the images that all providers take a file is."""

from __future__ import annotations


def media_type_of(content: bytes) -> str:
    """By its first bytes; nothing for what is none of the four."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((found for start, found in _STARTS.items() if content.startswith(start)), "")


_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
