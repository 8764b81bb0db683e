"""The mind's clone: brought together with the branch before a run, committed and pushed after it.

What may land there is the git door's to say: the paths that it refuses are put back as the branch has them, the clone's
own are kept beside, and the rest is pushed. A clone that git cannot work in gets a new repository around its files."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from infra.cell.clone_tip import CloneTip
from infra.cell.mind.memory import write
from infra.cell.mind.mind import MindContext
from infra.shared.branches import MIND
from infra.shared.clock import timestamp
from infra.shared.mind import layout
from infra.shared.mind.layout import is_below
from infra.shared.mind.sections import with_section
from infra.shared.people import AGENT
from infra.shared.refused import TAINTED, Refused, refusals_in
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import commit_tree
from infra.shared.safe_files import Below
from infra.shared.text import cut, one_line

ATTEMPTS: Final = 5
"""At a push: each lost race means that another one succeeded, and each refusal names what it is about."""
PUT_BACK: Final = f"{layout.SCRATCH}/put-back"
MOST_REPORT_BYTES = 256 << 10
_REF, _REMOTE = f"refs/heads/{MIND}", f"refs/remotes/origin/{MIND}"
_EXCLUDED = tuple(f":(exclude){path}" for path in layout.NOT_COMMITTED)
_T = TypeVar("_T")


def prepare(context: MindContext) -> bool:
    """The clone is there and as the branch, as far as the repository can be reached and takes what an earlier run left;
    False for an agent without a mind. Never raises."""
    mind, name = context.places.mind, f"left-{timestamp(context.now())}"

    def bring_together() -> None:
        git = context.git
        tip = CloneTip(git, MIND).look()
        _put_right(context, tip, name)
        _check_out_missing(git)  # nobody meant it to go, or it goes again
        _push(context, tip, "what an earlier run left", name)

    _in_clone(context, "mind.not_prepared", bring_together)
    if not os.path.isdir(f"{mind}/.git"):
        return False
    with contextlib.suppress(OSError):  # something else has this name; who needs the folder says so
        for folder in layout.FOLDERS:
            os.makedirs(f"{mind}/{folder}", exist_ok=True)
    with contextlib.suppress(OSError):
        _link_events(context)
    return True


def put_right(context: MindContext, name: str) -> list[str]:
    """The files that are the PM's alone, as the branch has them; gives those that were not. Never raises."""
    put = functools.partial(_put_right, context, _REMOTE, name)
    return _in_clone(context, "mind.not_put_right", put, is_made=False) or []


def publish(context: MindContext, subject: str, name: str) -> bool:
    """Commit what changed and push it; whether the branch has it all then. `name` says where the files lie that the
    door refused: in `scratch/put-back/NAME`, or `reflection/held/NAME`. Never raises."""

    def push() -> bool:
        tip = resolve_commit(context.git, _REMOTE) or CloneTip(context.git, MIND).look()
        return _push(context, tip, subject, name)

    return _in_clone(context, "mind.not_pushed", push, is_made=False) is True


def _in_clone(context: MindContext, failed: str, work: Callable[[], _T], is_made: bool = True) -> _T | None:
    """What git cannot do in this clone, it does in a new one; `is_made`: also where there is none. None when it failed,
    and the log says why."""
    try:
        if aside := Below(context.places.bot).set_aside(MIND, unless=stat.S_ISDIR):
            context.note("mind.set_aside", at=aside)
        is_there = os.path.isdir(f"{context.places.mind}/.git")
        if not (is_there or is_made):
            return None
        try:
            context.git("symbolic-ref", "HEAD", _REF)
            return work()
        except GitError as error:
            if error.is_machines and is_there:
                raise
            _anew(context, str(error))
            return work()
    except (GitError, OSError, ValueError) as error:
        context.note(failed, error=str(error))
        return None


def _anew(context: MindContext, why: str) -> None:
    """A new repository around the files that are there. Raises OSError, and GitError when there is none to clone; then
    nothing is changed."""
    mind, git, new, aside = context.places.mind, context.git, f"{context.places.bot}/.{MIND}.new", ""
    shutil.rmtree(new, ignore_errors=True)  # of a runner that was killed
    options = ("--quiet", "--template=", "--no-tags", "--no-checkout", "--single-branch", "--branch", MIND)
    Git("/", AGENT)("clone", *options, "--end-of-options", context.remote_url, new)
    os.makedirs(mind, exist_ok=True)
    is_empty = not os.listdir(mind)
    if os.path.lexists(f"{mind}/.git"):
        Below(mind).make_directory(layout.SCRATCH)
        aside = f"{layout.SCRATCH}/broken-git-{time.time_ns()}"
        os.rename(f"{mind}/.git", f"{mind}/{aside}")
    os.rename(f"{new}/.git", f"{mind}/.git")
    os.rmdir(new)
    if not is_empty:
        # What the files were made from, nobody knows: seen from the first commit on, the branch's text stands.
        git("update-ref", _REF, git("rev-list", "--max-parents=0", _REF).splitlines()[-1])
    git("read-tree", _REF)
    if is_empty:  # nobody has taken anything out of it
        _check_out_missing(git)
    context.note("mind.mended", why=why, aside=aside)


def _check_out_missing(git: Git) -> None:
    """Raises GitError."""
    if missing := git.raw("ls-files", "--deleted", "-z"):
        git("checkout-index", "-z", "--stdin", stdin=missing)


def _push(context: MindContext, tip: str, subject: str, name: str) -> bool:
    """What lies in the clone, committed on top of its own commits and brought together with the branch, which was at
    `tip`; whether the branch has it. Raises GitError, OSError."""
    git = context.git
    for _ in range(ATTEMPTS):
        head = _commit(context, subject, name)
        if head != tip:
            head = _merge(context, tip, name)
        if head == tip or git.ok("diff", "--quiet", tip, head, "--"):
            git("update-ref", _REF, tip)
            return True
        try:
            if CloneTip(git, MIND).move(tip, head):
                context.note("mind.pushed", commit=head, subject=subject)
                return True
            tip = CloneTip(git, MIND).look()
        except GitError as error:
            if not error.is_refusal:
                raise
            put_back = _put_back_refused(context, tip, refusals_in(error.stderr), name)
            if not put_back and git("rev-list", "--count", f"{tip}..{head}") == "1":
                context.note("mind.refused", commit=head, error=cut(error.stderr.strip(), 2000))
                return False
            git("update-ref", _REF, tip)  # as one commit: what is wrong may be in an older one as well
    context.note("mind.not_pushed", error=f"{ATTEMPTS} pushes lost, or were refused in part; the commit goes later")
    return False


def _commit(context: MindContext, subject: str, name: str) -> str:
    """All that lies in the clone but what is never committed; gives the clone's commit. Raises GitError, OSError."""
    git = context.git
    _move_repositories(context, name)
    # What the cell wrote there may say that nothing has changed, or is to be looked at.
    Below(git.directory).unlink(".git/info/exclude")
    git("read-tree", "HEAD")
    try:
        git("add", "--all", "--ignore-errors", "--", ".", *_EXCLUDED)
    except GitError as error:
        if error.status != 1:  # of some file, which stays in the clone
            raise
    tree = git("write-tree")
    head, before = git("rev-parse", "HEAD", "HEAD^{tree}").split()
    if tree != before:
        head = commit_tree(git, tree, (head,), cut(one_line(subject), 200))
        git("update-ref", _REF, head)
    return head


def _move_repositories(context: MindContext, name: str) -> None:
    """Git looks into no folder that has a `.git` of its own: without it, what lies there is judged as any other."""
    mind = context.places.mind
    for at, folders, files in os.walk(mind):
        if at != mind and ".git" in (*folders, *files):
            _move_aside(context, f"{os.path.relpath(at, mind)}/.git", "it is a repository of its own", PUT_BACK, name)
        folders[:] = [each for each in folders if each != ".git" and f"{at}/{each}" != f"{mind}/{layout.SCRATCH}"]


def _merge(context: MindContext, tip: str, name: str) -> str:
    """Where both sides changed the same, or one removed the file, the branch's stands; gives the clone's commit. Raises
    GitError, OSError."""
    git = context.git
    try:
        git("merge", "--quiet", "--strategy-option=theirs", "--no-edit", tip)
    except GitError:
        unmerged = _names(git.raw("diff", "--name-only", "--diff-filter=U", "-z"))
        if not unmerged:
            raise
        _put_back(context, tip, dict.fromkeys(unmerged, "the branch has it otherwise"), PUT_BACK, name)
        git("commit", "--quiet", "--no-edit")
    return git("rev-parse", "HEAD")


def _put_back_refused(context: MindContext, tip: str, refused: Iterable[Refused], name: str) -> bool:
    """Whether there was something. Raises GitError, OSError."""
    changed = _names(context.git.raw("diff", "--name-only", "--no-renames", "-z", tip, "HEAD", "--"))
    about = [(path, each) for path in changed for each in refused if each.path and is_below(path, (each.path,))]
    barred = {path for path, each in about if each.id != TAINTED}
    _put_back(context, tip, {path: each.why for path, each in about if path not in barred}, layout.HELD, name)
    _put_back(context, tip, {path: each.why for path, each in about if path in barred}, PUT_BACK, name)
    return bool(about)


def _put_back(context: MindContext, tip: str, why: Mapping[str, str], folder: str, name: str) -> None:
    """These paths as the branch has them, and what was there in a folder beside. Raises GitError, OSError."""
    for path, words in why.items():
        _move_aside(context, path, words, folder, name)
    if why:  # there may be more than a command line holds
        git, how = context.git, ("--quiet", "--pathspec-from-file=-", "--pathspec-file-nul")
        git("--literal-pathspecs", "reset", *how, tip, stdin=_listed(why))
        there = [path for path in _names(git.raw("ls-files", "-z")) if path in why]
        git("checkout-index", "--quiet", "--force", "-z", "--stdin", stdin=_listed(there))


def _move_aside(context: MindContext, path: str, why: str, folder: str, name: str) -> None:
    mind, at = context.places.mind, ""
    if Below(mind).status(path):
        at = f"{folder}/{name}/{path}".replace("/.", "/_")  # a name with a dot could be one that git reads
        at = f"{at}.{time.time_ns()}" if os.path.lexists(f"{mind}/{at}") else at
        os.makedirs(os.path.dirname(f"{mind}/{at}"), exist_ok=True)
        os.rename(f"{mind}/{path}", f"{mind}/{at}")
    context.note("mind.put_back", path=path, why=why, at=at)


def _put_right(context: MindContext, tip: str, name: str) -> list[str]:
    """The files that are the PM's alone, by content and not by the index, also where git sees none: as they were where
    the clone left the branch; and the drift report says so. Raises GitError, OSError."""
    git = context.git
    base = git("merge-base", "HEAD", tip)
    git("read-tree", "HEAD")  # and with the index go all bits that hide a change
    _move_repositories(context, name)
    changed = git.raw("diff", "--name-only", "--no-renames", "-z", base, "--", *layout.PM_ONLY)
    wrong = sorted({*_names(changed), *_names(git.raw("ls-files", "--others", "-z", "--", *layout.PM_ONLY))})
    _put_back(context, base, dict.fromkeys(wrong, "the PM's alone"), PUT_BACK, name)
    if wrong:
        mind, lines = context.places.mind, "".join(f"- put back as the branch has it: {path!a}\n" for path in wrong)
        text = Below(mind).tail(layout.DRIFT_REPORTS, MOST_REPORT_BYTES).decode(errors="replace") or "# Drift reports\n"
        write(mind, layout.DRIFT_REPORTS, with_section(text, timestamp(context.now()), f"\n{lines}"))
    return wrong


def _link_events(context: MindContext) -> None:
    """The clone shows the keep's log; whatever else has its name is moved beside. Raises OSError."""
    path = f"{context.places.mind}/{layout.EVENTS}"
    if os.path.islink(path) and os.readlink(path) == layout.EVENTS_LINK:
        return
    if aside := Below(context.places.mind).set_aside(layout.EVENTS, unless=lambda mode: False):
        context.note("mind.set_aside", at=aside)
    os.symlink(layout.EVENTS_LINK, path)


def _listed(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\0" for name in names).encode(errors="surrogateescape")


def _names(listed: bytes) -> list[str]:
    return [path for path in listed.decode(errors="surrogateescape").split("\0") if path]
