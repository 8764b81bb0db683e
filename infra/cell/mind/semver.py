"""Versions of skills by Semantic Versioning, and what a dependency on one asks for."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"({NUMBER})\.({NUMBER})\.({NUMBER})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?")
NAME = r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?"
"""Of a skill: lower-case letters and digits with `-` or `_` between them, at most 64 characters."""
_REFERENCE = re.compile(rf"(core|candidates|learned|deprecated|failed)/({NAME})@(\S{{1,80}})")


class SkillVersion(NamedTuple):
    major: int
    minor: int
    patch: int
    pre: str = ""
    """`alpha.1` of `1.0.0-alpha.1`."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Raises ValueError."""
        found = _VERSION.fullmatch(text)
        if not found or any(
            len(part) > 1 and part[0] == "0" and part.isdigit() for part in (found[4] or "").split(".")
        ):
            raise ValueError(f"{text[:80]!r} is no version; write MAJOR.MINOR.PATCH, as in 1.0.0")
        return cls(int(found[1]), int(found[2]), int(found[3]), found[4] or "")

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.pre}" if self.pre else "")

    @property
    def order(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        """Sorts by precedence (semver.org, 11): a pre-release comes before its release."""
        parts = self.pre.split(".") if self.pre else []
        return (
            self[:3],
            not self.pre,
            tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts),
        )


class Dependency(NamedTuple):
    """`core/html_to_text@1.2.0`: any version of the same major number that is no older."""

    directory: str
    """Of the states' directories below `skills`."""
    name: str
    version: SkillVersion

    @classmethod
    def of(cls, text: str) -> Self:
        """Raises ValueError."""
        found = _REFERENCE.fullmatch(text)
        if not found:
            raise ValueError(f"{text[:80]!r} is no dependency; write STATE/NAME@VERSION, as in core/files@1.0.0")
        return cls(found[1], found[2], SkillVersion.of(found[3]))

    def __str__(self) -> str:
        return f"{self.directory}/{self.name}@{self.version}"

    def takes(self, version: SkillVersion) -> bool:
        return version.major == self.version.major and version.order >= self.version.order
