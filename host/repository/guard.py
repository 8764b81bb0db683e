"""The hooks of the PM's own pushes by path, as what the agent pushes meets the git door's instead. One looks, and
refuses: plain git would write through a link that was planted below refs or objects, to wherever it leads. The other
has what was taken on the disk before the PM is answered.

Reading needs no guard: what a clone or a fetch could meet there makes it wait or fail, and runs nothing."""

from __future__ import annotations

import os
from typing import NamedTuple

from infra.shared.files import write_whole
from infra.shared.repository import durable_refs
from infra.shared.safe_files import opened_file


class Hook(NamedTuple):
    """A program that git runs as the PM; no container can reach the directory that it lies in."""

    script: str
    without: str
    """What happens where it is missing."""


NAME = "hooks/pre-receive"
SCRIPT = """\
#!/bin/sh
# Put here by minifram. Refuses a push by path while something below refs or objects would lead git out of here.
found=$({ find refs objects ! -type d ! -type f; find objects/info -name '*alternates'; } 2>/dev/null | head -n 5)
[ -z "$found" ] && exit 0
echo 'refused: git would follow these out of the repository, or wait for them:' >&2
printf '%s\\n' "$found" | LC_ALL=C tr -c '[:print:]\\n' '?' >&2
echo "see 'minifram doctor'; nothing of this push was taken" >&2
exit 1
"""
HOOKS = {
    NAME: Hook(SCRIPT, "your own pushes by path would follow planted links"),
    f"hooks/{durable_refs.HOOK}": Hook(
        durable_refs.SCRIPT, "a power cut could take back a push by path that git has confirmed"
    ),
}
"""All that `hooks/` holds, by path below the repository."""


def put_guard(remote: str) -> None:
    """Put the hooks into a repository of ours, but for those that the PM has there. Raises OSError."""
    os.makedirs(f"{remote}/hooks", mode=0o700, exist_ok=True)
    for name, hook in HOOKS.items():
        path = f"{remote}/{name}"
        if not os.path.lexists(path) or (_is_ours(path, hook) and not _is_right(path)):
            write_whole(path, hook.script.encode(), mode=0o700)


def is_guard(remote: str, name: str) -> bool:
    """Whether what lies at `name` is our hook to the byte, git would run it, and nobody else can write it. Raises
    OSError."""
    path = f"{remote}/{name}"
    return name in HOOKS and _is_ours(path, HOOKS[name]) and _is_right(path)


def _is_right(path: str) -> bool:
    status = os.lstat(path)
    return status.st_uid == os.geteuid() and status.st_mode & 0o122 == 0o100


def _is_ours(path: str, hook: Hook) -> bool:
    try:
        with opened_file(path) as file:
            return file.read(len(hook.script.encode()) + 1) == hook.script.encode()
    except FileNotFoundError:
        return False
