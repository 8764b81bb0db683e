"""Refs that survive a power cut. git syncs the file of a ref, but never the directory that holds its name.

The names of objects need no such care: ext4, xfs and btrfs bring to the disk what was renamed before with any directory
that is synced after (power was cut on each of them). The hook (githooks(5), reference-transaction) serves a git that
runs hooks; code that moves refs without hooks, as all of ours does, calls `update_refs`."""

from __future__ import annotations

import contextlib
import os

from infra.shared.files import sync_directory
from infra.shared.repository.git import Git

HOOK = "reference-transaction"
SCRIPT = """\
#!/bin/sh
# Put here by minifram: without it a power cut could take back a push that git has confirmed.
cd "${GIT_DIR:-.}" && [ "$1" = committed ] && while read -r _ _ ref; do
    while [ "$ref" != "${ref%/*}" ]; do ref=${ref%/*} && printf '%s\\n' "$ref"; done
done | sort -u | xargs -d '\\n' sync -- . 2>/dev/null
exit 0
"""


def update_refs(git: Git, *orders: str) -> None:
    """Carry out orders as `git update-ref --stdin` knows them, all or none, on a bare repository; then they are on the
    disk. Raises GitError, and OSError when they are carried out and could not be synced."""
    git("update-ref", "--stdin", "--no-deref", stdin="".join(f"{order}\n" for order in orders).encode())
    directories = {"."}
    for order in orders:
        ref = order.split(" ")[1]
        while ref := os.path.dirname(ref):
            directories.add(ref)
    for directory in sorted(directories):
        with contextlib.suppress(FileNotFoundError):  # git removes a directory with the last ref in it
            sync_directory(os.path.join(git.directory, directory))
