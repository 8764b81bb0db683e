"""The base of every section of the settings: a frozen value, a default for each key, unknown keys refused."""

from __future__ import annotations

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the settings. Every key has a default; an unknown key is an error."""
