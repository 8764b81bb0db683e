"""What the configuration of an agent's bare repository holds: `minifram init` writes it, host and keep check it."""

from __future__ import annotations

MARKER = "minifram.agent"
SETTINGS = (
    ("gc.packRefs", "false"),
    ("core.fsync", "all"),
    ("transfer.fsckObjects", "true"),
    ("receive.denyDeletes", "true"),
    ("receive.denyNonFastForwards", "true"),
)
"""Beside git's own lines (spec/ARCHITECTURE.md)."""


def config_text(agent: str) -> str:
    """The whole file, as `git init --bare` and `minifram init` write it on Linux."""
    core = (("core.repositoryformatversion", "0"), ("core.filemode", "true"), ("core.bare", "true"))
    lines = []
    for key, value in (*core, *SETTINGS, (MARKER, agent)):
        section, _, name = key.partition(".")
        lines.append(f"[{section}]\n\t{name} = {value}\n")
    return "".join(lines)


EXPECTED_KEYS = frozenset(
    [key.lower() for key, _ in SETTINGS]
    + [MARKER, "core.repositoryformatversion", "core.filemode", "core.bare", "extensions.objectformat"]
    + ["core.symlinks", "core.ignorecase", "core.precomposeunicode"]  # what git finds out about the file system
)
