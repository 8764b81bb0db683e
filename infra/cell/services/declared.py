"""What `services.yaml` declares; pure, but for `read`."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from infra.shared.safe_files import whole_file

FILE = "services.yaml"
MOST_BYTES = 64 * 1024
MOST_SERVICES = 8
MOST_WORDS = 100
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_KEYS = {"name", "command", "directory"}
EXAMPLE = "{name: web, command: [python, -m, http.server, '8000'], directory: src/web}"


class Service(NamedTuple):
    name: str
    command: tuple[str, ...]
    directory: str = "."
    """From the top of the checkout."""


class Declared(NamedTuple):
    services: tuple[Service, ...] = ()
    problem: str = ""
    """Why the file cannot be used; empty when it can."""


def read(checkout: str) -> Declared:
    """What the checkout's file declares; nothing when there is none."""
    path = os.path.join(checkout, FILE)
    if not os.path.lexists(path):
        return Declared()
    try:
        return declared(whole_file(path, MOST_BYTES))
    except (OSError, ValueError) as error:
        return Declared(problem=f"{FILE} cannot be read: {error}")


def declared(content: bytes) -> Declared:
    from infra.shared.plain_yaml import parse_yaml  # here, because few agents have such a file

    try:
        raw = parse_yaml(content.decode())  # without aliases: a few of them stand for any number of values
    except ValueError as error:
        return Declared(problem=f"{FILE} is not YAML: {' '.join(str(error).split())[:300]}")
    if raw is None:
        return Declared()
    entries = raw.get("services") if isinstance(raw, dict) and set(raw) <= {"services"} else None
    if entries is None and raw == {"services": None}:
        return Declared()
    if not isinstance(entries, list):
        return Declared(problem=f"{FILE} must hold one key, 'services', with a list of entries such as {EXAMPLE}")
    if len(entries) > MOST_SERVICES:
        return Declared(problem=f"{FILE} declares {len(entries)} services; at most {MOST_SERVICES} are run")
    found: list[Service] = []
    for number, entry in enumerate(entries, 1):
        problem = _problem_with(entry, {service.name for service in found})
        if problem:
            return Declared(problem=f"{FILE}, entry {number}: {problem}; expected something like {EXAMPLE}")
        found.append(Service(entry["name"], tuple(entry["command"]), os.path.normpath(entry.get("directory", "."))))
    return Declared(tuple(found))


def _problem_with(entry: Any, names: set[str]) -> str:
    if not isinstance(entry, dict):
        return f"it is {str(entry)[:80]!r}, not a mapping"
    name, command, directory = entry.get("name"), entry.get("command"), entry.get("directory", ".")
    unknown = sorted(str(key)[:40] for key in set(entry) - _KEYS)
    if unknown:
        return f"unknown key {unknown[0]!r}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"name is {str(name)[:80]!r}, not up to 40 of a-z, 0-9, - and _"
    if name in names:
        return f"the name {name!r} comes twice"
    if not isinstance(command, list) or not 0 < len(command) <= MOST_WORDS:
        return f"command is {str(command)[:80]!r}, not a list of words"
    if not all(isinstance(word, str) and "\0" not in word for word in command) or not command[0]:
        return "each word of command must be a string; quote numbers"
    if not isinstance(directory, str) or "\0" in directory or not _is_below(directory):
        return f"directory is {str(directory)[:80]!r}, not a path below the checkout"
    return ""


def _is_below(directory: str) -> bool:
    plain = os.path.normpath(directory)
    return not os.path.isabs(plain) and plain.split(os.sep)[0] != os.pardir
