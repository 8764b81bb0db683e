"""What the PM's settings say about pushes, as the small JSON file that pre-receive reads.

The keep writes it at each start. Anything but exactly these keys is an error: a door that does not know its
rules stays shut."""

from __future__ import annotations

import json
from enum import Enum
from typing import NamedTuple


class Autonomy(Enum):
    MERGE = "merge"
    """The agent moves main itself."""
    PROPOSE = "propose"
    """The agent pushes branches; only the PM moves main."""
    FROZEN = "frozen"
    """The agent only reports."""


class Rules(NamedTuple):
    autonomy: Autonomy
    blob_bytes: int
    """The largest file that a push may bring in."""
    protected_files: tuple[str, ...]
    """Patterns of files that the agent may not change on main (`shared.protection`)."""
    protected_branches: tuple[str, ...]
    """Patterns of branches that the agent may neither create nor move."""
    secrets: str
    """The directory of the secrets that no push may carry; one that is not there holds none."""
    var: str
    """The directory of the keep's state, where the web door's trace stands."""
    web_taints: bool


def to_json(rules: Rules) -> str:
    return json.dumps(rules._replace(autonomy=rules.autonomy.value)._asdict())  # type: ignore[arg-type]


def from_json(text: str) -> Rules:
    """Read what `to_json` wrote. Raises ValueError that says what is wrong with it."""
    raw = json.loads(text)
    if not isinstance(raw, dict) or raw.keys() != set(Rules._fields):
        found = sorted(raw) if isinstance(raw, dict) else type(raw).__name__
        raise ValueError(f"expected the keys {', '.join(Rules._fields)}, found {found}")
    blob_bytes = raw["blob_bytes"]
    if not isinstance(blob_bytes, int) or isinstance(blob_bytes, bool) or blob_bytes <= 0:
        raise ValueError(f"blob_bytes is {blob_bytes!r}; expected a whole number above 0")
    for name in ("secrets", "var"):
        if not isinstance(raw[name], str) or not raw[name].startswith("/"):
            raise ValueError(f"{name} is {raw[name]!r}; expected a path from the root")
    if not isinstance(raw["web_taints"], bool):
        raise ValueError(f"web_taints is {raw['web_taints']!r}; expected true or false")
    files, branches = (_patterns(name, raw[name]) for name in ("protected_files", "protected_branches"))
    fixed = raw | {"autonomy": Autonomy(raw["autonomy"]), "protected_files": files, "protected_branches": branches}
    return Rules(**fixed)


def _patterns(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError(f"{name} is {value!r}; expected a list of patterns")
    return tuple(value)


def read_rules(path: str) -> Rules:
    """Rules from a file. Raises OSError and ValueError."""
    with open(path, encoding="utf-8") as file:
        return from_json(file.read())
