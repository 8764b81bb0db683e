"""The mind's clone: made and mended before a run, brought together with the branch, committed and pushed after it.

Nothing is forced, and nothing that somebody wrote is dropped: what may not be pushed, or lost a merge, is kept beside.
All of it is done under one lock, so that two runners do not work in one clone at once."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from infra.cell.clone_git import outside
from infra.cell.mind import clone_tree
from infra.cell.mind.clone_repair import BrokenClone, mend, settle
from infra.cell.mind.mind import MindContext
from infra.shared.branches import MIND
from infra.shared.clock import timestamp
from infra.shared.file_lock import lock_until
from infra.shared.mind import layout
from infra.shared.mind.layout import FOLDERS
from infra.shared.refused import LOSSES, TAINTED, refusals_in
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, resolve_commit
from infra.shared.repository.tip import CloneTip, commit_tree
from infra.shared.safe_files import Below
from infra.shared.text import cut

LOCK_SECONDS: Final = 60.0
ATTEMPTS: Final = 5
"""At a push: each lost race means that another one succeeded."""
_NO_BRANCH: Final = f"the repository has no branch {MIND!r}; 'minifram up' makes one, and until then commits stay here"
_REF: Final = f"refs/heads/{MIND}"
_REMOTE: Final = f"refs/remotes/origin/{MIND}"


class MindBusy(Exception):
    """Another runner works in the clone all the time."""


@contextlib.contextmanager
def locked(context: MindContext, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """One at a time, of all processes. Raises MindBusy, OSError, Interrupted."""
    descriptor = os.open(f"{context.places.bot}/.{MIND}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_until(descriptor, time.monotonic() + seconds, between=context.interruption.check):
            raise MindBusy(f"another runner held the mind's clone for {seconds:g} s")
        yield
    finally:
        os.close(descriptor)


def prepare(context: MindContext) -> bool:
    """The clone is there and, when the repository can be reached, up to date; False for an agent without a mind.
    Raises nothing but Interrupted."""
    try:
        with locked(context):
            tip, is_reached = None, True
            try:
                tip = _fetched(context)
            except GitError as error:
                is_reached = False
                context.note("mind.not_fetched", error=str(error))
            if tip is None and not os.path.lexists(f"{context.places.mind}/.git"):
                return False
            _whole(context, tip)
            _restore_missing(context)
            if tip:
                _keep_aside_what_was_left(context, tip)
                _bring_together(context, tip)
            elif is_reached:
                context.note("mind.branch_missing", error=_NO_BRANCH)
            for folder in FOLDERS:
                with contextlib.suppress(OSError):  # something else has this name; who needs the folder says so
                    os.makedirs(f"{context.places.mind}/{folder}", exist_ok=True)
            _link_events(context)
    except (GitError, OSError, ValueError, MindBusy) as error:
        context.note("mind.not_prepared", error=str(error))
    return os.path.isdir(f"{context.places.mind}/.git")


def _link_events(context: MindContext) -> None:
    """The clone shows the keep's log; whatever else has its name is moved beside. Raises OSError."""
    path = f"{context.places.mind}/{layout.EVENTS}"
    if os.path.islink(path) and os.readlink(path) == layout.EVENTS_LINK:
        return
    if aside := Below(context.places.mind).set_aside(layout.EVENTS, unless=lambda mode: False):
        context.note("mind.set_aside", at=aside)
    os.symlink(layout.EVENTS_LINK, path)


def publish(context: MindContext, subject: str, name: str) -> bool:
    """Commit what changed as one commit and push it; whether the branch has it all then. `name` says where what may not
    be pushed is kept: `scratch/put-back/NAME`, or `reflection/held/NAME`. Raises nothing but Interrupted."""
    if not os.path.isdir(f"{context.places.mind}/.git"):
        return False
    try:
        with locked(context):
            return _publish(context, subject, name)
    except (GitError, OSError, ValueError, MindBusy) as error:
        context.note("mind.not_pushed", error=str(error))
        return False


def _publish(context: MindContext, subject: str, name: str) -> bool:
    git, is_folded, tainted, lost, noted = context.git, False, context.is_tainted(), set[str](), True
    tip = resolve_commit(git, _REMOTE)
    _whole(context, tip)
    for attempt in range(ATTEMPTS):
        if attempt or tip is None:
            tip = _fetched(context)
            if tip is None:
                _commit_locally(context, subject)
                raise ValueError(_NO_BRANCH)
        if clone_tree.is_as(git, tip):
            return True
        _keep_aside(context, tip, name, tainted, lost, noted)
        new = _commit(context, tip, subject, is_folded)
        if new == tip:
            return True
        try:
            if CloneTip(git, MIND).move(tip, new):
                context.note("mind.pushed", commit=new, subject=subject)
                return True
        except GitError as error:
            if not error.is_refusal:
                raise
            said = refusals_in(error.stderr)
            if any(each.id == TAINTED for each in said) and (noted or not tainted):
                # A page was served meanwhile, or what is in the memory rests on no note that the keep knows.
                tainted, noted = True, noted and not tainted
                continue
            gone = {each.path for each in said if each.id == LOSSES}
            if gone and not lost:
                lost = gone
                continue
            if is_folded or git("rev-list", "--count", f"{tip}..{new}") == "1":
                context.note("mind.refused", commit=new, error=cut(error.stderr.strip(), 2000))
                return False
            is_folded = True  # what is wrong may be in an older commit only
    context.note("mind.not_pushed", error=f"{ATTEMPTS} pushes lost against others; the commit stays, and goes later")
    return False


def _commit(context: MindContext, tip: str, subject: str, is_folded: bool) -> str:
    """The clone's branch with all that is in the clone, on top of `tip`. Raises GitError."""
    git = context.git
    head = resolve_commit(git, "HEAD") or tip
    ours = clone_tree.staged(git, tip)
    merged = clone_tree.merged_tree(git, _base(git, head, tip), ours, tip, timestamp(context.now())[:10], context.note)
    if merged == git("rev-parse", f"{tip}^{{tree}}"):
        new = tip
    elif is_folded or (head != tip and not git.ok("merge-base", "--is-ancestor", tip, head)):
        left = git("log", "--format=%s", f"{tip}..{head}", "--").splitlines() if head != tip else []
        new = commit_tree(git, merged, (tip,), _message(git, subject, tip, merged, left))
    elif merged == git("rev-parse", f"{head}^{{tree}}"):
        new = head
    else:
        new = commit_tree(git, merged, (head,), _message(git, subject, head, merged))
    clone_tree.move(git, ours, merged)
    git("update-ref", _REF, new)
    return new


def _commit_locally(context: MindContext, subject: str) -> None:
    git = context.git
    head = resolve_commit(git, "HEAD")
    tree = clone_tree.staged(git, head)
    if head is None or tree != git("rev-parse", f"{head}^{{tree}}"):
        message = _message(git, subject, head or EMPTY_TREE, tree)
        git("update-ref", _REF, commit_tree(git, tree, (head,) if head else (), message))


def _message(git: Git, subject: str, before: str, tree: str, left: Iterable[str] = ()) -> str:
    """`left`: the subjects of commits that are in this one because they could not be pushed before."""
    changed = git.raw("diff-tree", "-r", "-z", "--name-only", before, tree).decode(errors="replace").split("\0")[:-1]
    more = [f"and {len(changed) - clone_tree.MOST_NAMED} more"] if len(changed) > clone_tree.MOST_NAMED else []
    lines = [cut(subject.replace("\n", " "), 200), "", *changed[: clone_tree.MOST_NAMED], *more]
    older = [each for each in dict.fromkeys(left) if each != subject]
    return "\n".join([*lines, *(["", "With what could not be pushed before:", *older] if older else [])]) + "\n"


def _fetched(context: MindContext) -> str | None:
    """The branch's tip, in the clone when there is one; None when the repository has none. Raises GitError."""
    mind = context.places.mind
    if not os.path.isdir(f"{mind}/.git") or os.path.islink(mind):
        listed = outside(context.places, context.remote_url)("ls-remote", "--quiet", context.remote_url, _REF)
        return listed.split()[0] if listed else None
    try:
        return CloneTip(context.git, MIND).look()
    except GitError as error:
        if error.is_machines:
            raise
        listed = outside(context.places, context.remote_url)("ls-remote", "--quiet", context.remote_url, _REF)
        return listed.split()[0] if listed else None


def _whole(context: MindContext, tip: str | None) -> None:
    """Make or mend the clone, so that git works in it. Raises GitError, OSError."""
    try:
        if settle(context):
            return
        why = "it was not there"
    except BrokenClone as broken:
        why = str(broken)
    mend(context, outside(context.places, context.remote_url), tip, why)


def _restore_missing(context: MindContext) -> None:
    """What was removed and not committed: nobody meant it to go, or it goes again."""
    missing = context.git.raw("ls-files", "--deleted", "-z")
    if missing:
        context.git("checkout-index", "--quiet", "-z", "--stdin", stdin=missing)
        context.note("mind.restored", files=missing.count(b"\0"))


def _keep_aside(
    context: MindContext, tip: str, name: str, tainted: bool, lost: Collection[str] = (), noted: bool = False
) -> None:
    for kept in clone_tree.keep_aside(context, tip, name, tainted, lost, noted):
        context.note("mind.put_back", **kept._asdict())


def _keep_aside_what_was_left(context: MindContext, tip: str) -> None:
    """By a tainted run that was killed: no other reads it as its memory. It stays where the keep does not say."""
    try:
        tainted = context.is_tainted()
    except OSError as error:
        context.note("mind.taint_not_known", error=str(error))
        return
    if tainted:
        _keep_aside(context, tip, f"left-{timestamp(context.now())}", True)


def _bring_together(context: MindContext, tip: str) -> None:
    """What is not pushed, committed or not, on top of `tip`. Raises GitError."""
    git = context.git
    head = resolve_commit(git, "HEAD")
    if head == tip or (head and git.ok("merge-base", "--is-ancestor", tip, head)):
        return
    ours = clone_tree.staged(git, tip)
    merged = clone_tree.merged_tree(git, _base(git, head, tip), ours, tip, timestamp(context.now())[:10], context.note)
    new = tip
    left = git("log", "--format=%s", f"{tip}..{head}", "--").splitlines() if head else []
    if left and merged != git("rev-parse", f"{tip}^{{tree}}"):
        new = commit_tree(git, merged, (tip,), _message(git, left[0], tip, merged, left[1:]))
    clone_tree.move(git, ours, merged)
    git("update-ref", _REF, new)
    context.note("mind.brought_together", before=head, after=new)


def _base(git: Git, head: str | None, tip: str) -> str | None:
    """What both come from; None when that is not known."""
    if head == tip:
        return tip
    try:
        return git("merge-base", head, tip) if head else None
    except GitError as error:
        if error.status == 1:
            return None
        raise
