"""The shared repository as it is before anything of the agent's runs: plain files and directories where git expects
them, and no key in its configuration that `minifram init` does not write. `minifram doctor` looks deeper."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from infra.shared.branches import MAIN
from infra.shared.repository.bare_config import EXPECTED_KEYS
from infra.shared.repository.git import Git, GitError

MOST_REFS = 100_000
PLANTED = ("objects/info/alternates", "objects/info/http-alternates", "refs/replace")
"""Each would have git read other objects than those that are shown."""


def problems(remote: str) -> Iterator[str]:
    """Each thing that was planted, in words. Raises OSError."""
    for name in ("HEAD", "config"):
        if not stat.S_ISREG(os.lstat(f"{remote}/{name}").st_mode):
            yield f"{remote}/{name} is no regular file"
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
            yield f"{remote}/{name} is there; nobody but an intruder puts it there"
    if os.path.lexists(f"{remote}/hooks"):
        yield f"{remote}/hooks can be reached from the container; expected on the host alone, where git runs it"
    yield from _odd_files(f"{remote}/refs", MOST_REFS)
    yield from _odd_files(f"{remote}/objects/info", MOST_REFS)


def _odd_files(directory: str, most: int) -> Iterator[str]:
    """What is neither a directory nor a regular file; git would follow a link and wait for a FIFO."""
    seen = 0
    pending = [directory]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except FileNotFoundError:
            continue
        for entry in entries:
            seen += 1
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                yield f"{entry.path!r} is a link, a FIFO, a socket or a device; expected files and directories"
        if seen > most:
            yield f"{directory} holds over {most} entries; expected some hundreds"
            return
