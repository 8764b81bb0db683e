"""The shared repository as it is before anything of the agent's runs: plain files and directories where git expects
them, and no key in its configuration that `minifram init` does not write. `minifram doctor` looks deeper."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from infra.keep.repository.bare_config import EXPECTED_KEYS
from infra.shared.branches import MAIN
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below, Unseen

MOST_REFS, MOST_DEPTH = 100_000, 200
PLANTED = ("objects/info/alternates", "objects/info/http-alternates", "refs/replace", "hooks")
"""Each would have git read other objects than those that are shown; hooks are the host's, which runs git for them."""


def problems(remote: str) -> Iterator[str]:
    """Each thing that was planted, in words. Raises OSError."""
    for name in ("HEAD", "config"):
        if not stat.S_ISREG(os.lstat(f"{remote}/{name}").st_mode):
            yield f"{remote}/{name} is not a regular file"
            return
    with open(f"{remote}/HEAD", "rb") as file:
        if file.read(100) != f"ref: refs/heads/{MAIN}\n".encode():
            yield f"{remote}/HEAD does not name refs/heads/{MAIN}"
    try:
        listed = Git("/").raw("config", "--file", f"{remote}/config", "--no-includes", "--name-only", "--list", "-z")
    except GitError as error:
        yield f"{remote}/config cannot be read: {error.stderr.strip()}"
    else:
        strange = sorted(set(filter(None, listed.decode(errors="replace").split("\0"))) - EXPECTED_KEYS)
        if strange:
            yield f"{remote}/config has keys that 'minifram init' does not write: {', '.join(strange)[:500]}"
    for name in PLANTED:
        if os.path.lexists(f"{remote}/{name}"):
            yield f"{remote}/{name} can be reached from the container; nothing of minifram puts it there"
    yield from _odd_files(remote, "refs")
    yield from _odd_files(remote, "objects/info")


def _odd_files(remote: str, directory: str) -> Iterator[str]:
    """What is neither a directory nor a regular file; git would follow a link and wait for a FIFO."""
    for found in Below(remote).walk(directory, depth=MOST_DEPTH, most=MOST_REFS):
        if isinstance(found, Unseen):
            if found.at_bound or os.path.lexists(f"{remote}/{directory}"):
                yield f"{remote}/{found.path} {found.why}; expected some hundreds of entries that can be read"
        elif not (stat.S_ISDIR(found.status.st_mode) or stat.S_ISREG(found.status.st_mode)):
            yield f"{found.path!r} is a link, a FIFO, a socket or a device; expected files and directories"
