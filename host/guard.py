"""The hook that guards the PM's own pushes by path: plain git would write through a link that was planted below refs
or objects, to wherever it leads. It only looks, and refuses; what the agent pushes meets the git door instead.

Reading needs no guard: what a clone or a fetch could meet there makes it wait or fail, and runs nothing."""

from __future__ import annotations

import os

from infra.contract.files import write_whole

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


def put_guard(remote: str) -> None:
    """Put the hook into a repository of ours, unless the PM has one there. Raises OSError."""
    path = f"{remote}/{NAME}"
    if os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_whole(path, SCRIPT.encode(), mode=0o700)


def is_guard(path: str) -> bool:
    """Whether the file at `path` is this hook to the byte. Raises OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(len(SCRIPT.encode()) + 1) == SCRIPT.encode()
