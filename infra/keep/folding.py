"""Names that a file system of somebody's takes for one. Pure."""

from __future__ import annotations

import unicodedata


def folded(name: str) -> str:
    """The same for all names that some file system takes for one: capital letters, forms of a letter and characters
    without width count for nothing, nor do dots and spaces at the end."""
    if name.isascii():
        return name.lower().rstrip(" .") or name
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(each for each in plain if unicodedata.category(each) != "Cf").rstrip(" .") or name
