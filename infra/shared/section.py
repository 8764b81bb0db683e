"""What every part of the settings is: a frozen value with a default for each key, and no key that is not known."""

from __future__ import annotations

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of settings; every key has a default, and a key that is not known is an error."""
