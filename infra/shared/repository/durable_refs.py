"""Refs that survive a power cut. git writes a ref beside its place, syncs that file and renames it, whatever
`core.fsync` says never syncs the directory, and so answers before the new name is on the disk.

The names of objects need no such care: git syncs each file before it has its name, and ext4, xfs and btrfs bring to the
disk what was renamed before with any directory that is synced after (power was cut on each of them).

The hook here (githooks(5), reference-transaction) serves a git that runs hooks; code that moves refs without hooks, as
all of ours does, calls `update_refs`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from infra.shared.files import sync_directory
from infra.shared.repository.git import Git, GitError

HOOK = "reference-transaction"
SCRIPT = """\
#!/bin/sh
# Put here by minifram. Syncs the directories of the refs that git has just changed, so that a push that was answered
# survives a power cut. It comes after the change: git takes no notice of how it ends.
[ "$1" = committed ] || exit 0
cd "${GIT_DIR:-.}" || exit 0
set --
before= top=
while read -r _ new ref; do
    # A deletion may also have replaced packed-refs.
    case $new in *[!0]*) ;; *) [ "$top" ] || set -- "$@" .; top=. ;; esac
    [ "${ref%/*}" = "$before" ] && continue
    before=${ref%/*}
    # The directories above may be new too, and an empty one may be gone with the last ref in it.
    while [ "$ref" != "${ref%/*}" ]; do
        ref=${ref%/*}
        [ -d "$ref" ] && set -- "$@" "$ref"
    done
done
[ $# -eq 0 ] || exec sync -- "$@"
"""


def update_refs(git: Git, *orders: str) -> None:
    """Carry out orders as `git update-ref --stdin` knows them, all or none, on a bare repository; then they are on the
    disk. Raises GitError, and OSError when they are carried out and could not be synced."""
    try:
        git("update-ref", "--stdin", "--no-deref", stdin="".join(f"{order}\n" for order in orders).encode())
    except GitError:
        with contextlib.suppress(OSError):  # it may have been ended after the deed
            _sync(git.directory, orders)
        raise
    _sync(git.directory, orders)


def locks_of_refs(remote: str) -> list[str]:
    """Where git may have left one; no branch's name ends so (git-check-ref-format(1))."""
    found = [f"{remote}/{name}.lock" for name in ("packed-refs", "HEAD")]
    for directory, _, names in os.walk(f"{remote}/refs"):
        found += [f"{directory}/{name}" for name in names if name.endswith(".lock")]
    return found


def _sync(remote: str, orders: tuple[str, ...]) -> None:
    for directory in sorted({each for order in orders for each in _directories(order)}):
        with contextlib.suppress(FileNotFoundError):  # git removes a directory with the last ref in it
            sync_directory(os.path.join(remote, directory))


def _directories(order: str) -> Iterator[str]:
    """Where the order changes something, as in the hook."""
    command, ref = order.split(" ")[:2]
    if command == "delete":
        yield "."
    while ref := os.path.dirname(ref):
        yield ref
