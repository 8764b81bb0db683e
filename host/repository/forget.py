"""Rewrites the history of the mind without what the PM has forgotten: every commit of the branch, its snapshots, and
what else of the repository's tags and rescued work leads into it. Then the old objects are removed.

git itself writes out the history (git-fast-export(1)) and reads it again (git-fast-import(1)); in between each file,
message and path is changed. The refs move in one transaction: before it nothing has changed, after it all has."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import NamedTuple

from host.errors import conflict
from host.repository.mind import REF
from infra.shared.branches import RESCUE
from infra.shared.mind.forgetting import Forgetting
from infra.shared.mind.snapshots import TAGS
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError

SECONDS = 900.0
"""For all git calls of one forgetting."""
MOST_BYTES = 2 << 30
MOST_SHOWN = 20
_TEMPORARY = "refs/minifram/forgetting/"
_MINE = (REF, TAGS, f"refs/heads/{RESCUE}")


class HistoryForgotten(NamedTuple):
    commits: dict[str, str]
    """Old -> new, of those that are others now."""
    refs: tuple[str, ...]
    """That were moved."""
    elsewhere: tuple[str, ...]
    """Refs that lead into the mind's history too, and are not the mind's: they were left as they are."""


class _Ref(NamedTuple):
    name: str
    id: str
    """Of the tag, or the commit."""
    commit: str


def forget_in_history(
    git: Git, forgetting: Forgetting, hashes: Mapping[str, str], before: Callable[[Iterable[str]], None]
) -> HistoryForgotten:
    """`hashes`: of events that are others now; `before` is called with the commits that go, before a ref moves. Raises
    GitError, OSError; then no ref has moved."""
    git = git.afresh(SECONDS).saying_at_most(MOST_BYTES)
    mine, elsewhere = _leading_into(git)
    commits = list(dict.fromkeys(ref.commit for ref in mine))
    _drop_temporary(git)
    temporary = [f"{_TEMPORARY}{number}" for number in range(len(commits))]
    try:
        update_refs(git, *(f"create {name} {commit}" for name, commit in zip(temporary, commits, strict=True)))
        moved = _rewritten(git, temporary, forgetting, hashes)
        changed = {old: new for old, new in moved.items() if old != new}
        orders = [order for ref in mine for order in _order(git, ref, changed, forgetting)]
        if orders:
            before(changed)
            update_refs(git, *orders)
    finally:
        _drop_temporary(git)
    return HistoryForgotten(changed, tuple(order.split(" ")[1] for order in orders), elsewhere)


def _leading_into(git: Git) -> tuple[list[_Ref], tuple[str, ...]]:
    """Refs of the mind, and others with its history in them."""
    roots = git("rev-list", "--max-parents=0", REF).split()
    form = "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"
    found = dict[str, _Ref]()
    for root in roots:
        for line in git("for-each-ref", form, "--contains", root).split("\n"):
            kind, id, inner_kind, inner, name = line.split(" ", 4) if line else ("", "", "", "", "")
            if kind == "commit" or (kind, inner_kind) == ("tag", "commit"):
                found[name] = _Ref(name, id, id if kind == "commit" else inner)
    mine = [ref for name, ref in found.items() if name.startswith(_MINE)]
    return mine, tuple(name for name in found if not name.startswith((*_MINE, _TEMPORARY)))


def _drop_temporary(git: Git) -> None:
    left = git("for-each-ref", "--format=%(refname)", _TEMPORARY).split()
    if left:
        update_refs(git, *(f"delete {name}" for name in left))


def _rewritten(git: Git, names: list[str], forgetting: Forgetting, hashes: Mapping[str, str]) -> dict[str, str]:
    """The temporary refs are at the new commits then; old -> new, of all commits."""
    with tempfile.TemporaryDirectory(prefix="minifram-forget-") as scratch:
        old, new = f"{scratch}/old", f"{scratch}/new"
        stream = git.raw(
            "-c",
            "core.quotePath=false",
            "fast-export",
            "--reencode=no",
            f"--export-marks={old}",
            *names,
            timeout=SECONDS,
        )
        changed = b"".join(_changed(stream, forgetting, hashes))
        git("fast-import", "--quiet", "--force", f"--export-marks={new}", stdin=changed, timeout=SECONDS)
        before, after = _marks(old), _marks(new)
    return {commit: after[mark] for mark, commit in before.items() if mark in after}


def _marks(path: str) -> dict[str, str]:
    with open(path, encoding="ascii") as file:
        pairs = [line.split() for line in file]
    return {mark: id for mark, id in pairs}


def _changed(stream: bytes, forgetting: Forgetting, hashes: Mapping[str, str]) -> Iterator[bytes]:
    """The stream of git-fast-export(1) with other contents, messages and paths."""
    reading, commit = BytesIO(stream), False
    for line in iter(reading.readline, b""):
        if line.startswith(b"data "):
            content = forgetting.text(reading.read(int(line[5:])), {} if commit else hashes)
            yield b"data %d\n%s" % (len(content), content)
            continue
        if line.startswith((b"blob\n", b"commit ")):
            commit = line.startswith(b"commit ")
        yield forgetting.text(line) if line.startswith((b"M ", b"D ")) else line


def _order(git: Git, ref: _Ref, changed: Mapping[str, str], forgetting: Forgetting) -> Iterator[str]:
    """For git-update-ref(1); nothing when the ref stays."""
    new = changed.get(ref.commit, ref.commit)
    if ref.id == ref.commit:
        if new != ref.commit:
            yield f"update {ref.name} {new} {ref.id}"
        return
    before = git.raw("cat-file", "tag", ref.id)
    head, gap, words = before.partition(b"\n\n")
    words = forgetting.text(words).replace(ref.commit.encode(), new.encode())
    after = head.replace(ref.commit.encode(), new.encode(), 1) + gap + words
    if after != before:
        yield f"update {ref.name} {git('hash-object', '-t', 'tag', '-w', '--stdin', stdin=after)} {ref.id}"


def remove_old_objects(git: Git) -> None:
    """Whatever no ref leads to. Nobody may push meanwhile. Raises GitError, CommandError."""
    remote = git.directory
    if os.path.exists(f"{remote}/gc.pid") or os.path.exists(f"{remote}/objects/info/alternates"):
        raise conflict(
            f"another git tidies {remote}, or it borrows objects: the mind is rewritten, and the old objects are still "
            f"there. When nothing else works there: git -C {remote} gc --prune=now"
        )
    git = git.afresh(SECONDS)
    with contextlib.suppress(GitError):  # a bare repository of ours has none
        git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all", timeout=SECONDS)
    git("gc", "--quiet", "--prune=now", timeout=SECONDS)


def still_holding(git: Git, forgetting: Forgetting) -> list[str]:
    """Branches outside of the mind whose newest files hold it, for the PM to know. Raises GitError."""
    found = list[str]()
    for name in git("for-each-ref", "--format=%(refname)", "refs/heads/").split():
        if name.startswith(_MINE) or not forgetting.words:
            continue
        words = [part for word in forgetting.words for part in ("-e", word)]
        with contextlib.suppress(GitError):  # 1 for nothing found
            listed = git(
                "grep", "--files-with-matches", "--ignore-case", "--fixed-strings", "--full-name", *words, name
            )
            found += listed.split("\n")[:20]
    return found
