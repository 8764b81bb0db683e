"""What of the PM's settings the web door is given: as much as it works with. The rest, such as the command that
sends notifications, may hold a key, and none is for who reads strangers' pages."""

from __future__ import annotations

import yaml

from infra.keep.settings_file import SettingsError, parse_settings
from infra.shared.plain_yaml import parse_yaml

SECTIONS = ("policy", "web")


def settings_of_web_door(path: str) -> bytes:
    """As `parse_settings` takes them. Raises OSError when the settings are not to be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        parse_settings(text, path)
    except (SettingsError, UnicodeDecodeError) as error:
        raise OSError(str(error)) from None
    whole = parse_yaml(text) or {}
    return yaml.safe_dump({name: whole[name] for name in SECTIONS if name in whole}).encode()
