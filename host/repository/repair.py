"""What minifram itself keeps in a bare repository, and puts back: its hooks, and the two files whose content is always
the same, where a power cut emptied them; locks of a git that ended with the machine are removed.

The hooks serve the PM's own pushes by path, as the git door's serve the agent's. One refuses a push while plain git
would write through a planted link; the other has what was taken on the disk before git answers. Reading needs no
hook: what a clone or a fetch could meet there makes it wait or fail, and runs nothing."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

from host.paths import AgentPaths
from infra.shared.branches import MAIN
from infra.shared.files import write_whole
from infra.shared.repository import durable_refs
from infra.shared.repository.bare_config import config_text
from infra.shared.safe_files import whole_file

_SMALL = 4096
"""An empty file may have its old length, of zero bytes."""


class Hook(NamedTuple):
    """A program that git runs as the PM; no container can reach the directory that it lies in."""

    script: str
    without: str
    """What happens where it is missing."""


PRE_RECEIVE = "hooks/pre-receive"
HOOKS = {
    PRE_RECEIVE: Hook(
        """\
#!/bin/sh
# Put here by minifram. Refuses a push by path while something below refs or objects would lead git out of here.
found=$({ find refs objects ! -type d ! -type f; find objects/info -name '*alternates'; } 2>/dev/null | head -n 5)
[ -z "$found" ] && exit 0
echo 'refused: git would follow these out of the repository, or wait for them:' >&2
printf '%s\\n' "$found" | LC_ALL=C tr -c '[:print:]\\n' '?' >&2
echo "see 'minifram doctor'; nothing of this push was taken" >&2
exit 1
""",
        "your own pushes by path would follow planted links",
    ),
    f"hooks/{durable_refs.HOOK}": Hook(
        durable_refs.SCRIPT, "a power cut could take back a push by path that git has confirmed"
    ),
}
"""All that `hooks/` holds, by path below the repository."""


def put_hooks(remote: str) -> None:
    """Put our hooks into a repository of ours, except where the PM has others. Raises OSError."""
    os.makedirs(f"{remote}/hooks", mode=0o700, exist_ok=True)
    for name, hook in HOOKS.items():
        path = f"{remote}/{name}"
        if not os.path.lexists(path) or (_holds(path, hook.script) and not _is_right(path)):
            write_whole(path, hook.script.encode(), mode=0o700)


def is_hook(remote: str, name: str) -> bool:
    """Whether what lies at `name` is our hook to the byte, git would run it, and nobody else can write it. Raises
    OSError."""
    path = f"{remote}/{name}"
    return name in HOOKS and _holds(path, HOOKS[name].script) and _is_right(path)


def _is_right(path: str) -> bool:
    status = os.lstat(path)
    return status.st_uid == os.geteuid() and status.st_mode & 0o122 == 0o100


def _holds(path: str, script: str) -> bool:
    try:
        return whole_file(path, len(script.encode())) == script.encode()
    except (FileNotFoundError, ValueError):
        return False


def repair(home: AgentPaths, started: float) -> Iterator[str]:
    """Put right what a power cut damaged and needs no guess; what was done, in words. `started`: when the machine was,
    by the wall's clock. Raises OSError."""
    contents = {"HEAD": f"ref: refs/heads/{MAIN}\n", "config": config_text(home.agent)}
    for name in emptied(home.remote):
        write_whole(f"{home.remote}/{name}", contents[name].encode())
        yield f"{home.remote}/{name} was empty, as a power cut can leave it; it is written again, as 'init' made it"
    for path in [f"{home.remote}/config.lock", *durable_refs.locks_of_refs(home.remote)]:
        if os.path.lexists(path) and os.lstat(path).st_mtime < started:
            os.unlink(path)
            yield f"{path} was left by a git that ended with the machine; it is removed"


def machine_started() -> float:
    """By the wall's clock."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def emptied(remote: str) -> list[str]:
    """Those of the two files that hold nothing, in a directory that is a repository otherwise. Raises OSError."""
    if not all(stat.S_ISDIR(_mode(f"{remote}/{name}".rstrip("/"))) for name in ("", "objects", "refs")):
        return []
    return [name for name in ("HEAD", "config") if _holds_nothing(f"{remote}/{name}")]


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return 0


def _holds_nothing(path: str) -> bool:
    try:
        return not whole_file(path, _SMALL).strip(b"\0")
    except FileNotFoundError:
        return True
    except ValueError:  # a link, or no small file
        return False
