"""The mind's clone: brought together with the branch before a run, committed and pushed after it.

What may land there is the git door's to say: the paths that it refuses are put back as the branch has them, the clone's
own are kept in `scratch`, and the rest is pushed. A clone that git cannot work in is set aside whole and made anew."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from typing import Final

from infra.cell.cell import Cell
from infra.cell.clone_tip import CloneTip
from infra.cell.mind.memory import write
from infra.cell.mind.mind import git_of
from infra.shared.branches import MIND
from infra.shared.clock import timestamp
from infra.shared.mind import layout
from infra.shared.mind.layout import is_below
from infra.shared.mind.sections import with_section
from infra.shared.people import AGENT
from infra.shared.refused import Refused, refusals_in
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import commit_tree
from infra.shared.safe_files import Below
from infra.shared.text import cut, one_line

ATTEMPTS: Final = 5
"""At a push: each lost race means that another one succeeded, and each refusal names what it is about."""
MOST_REPORT_BYTES = 256 << 10
_REF, _REMOTE = f"refs/heads/{MIND}", f"refs/remotes/origin/{MIND}"
_EXCLUDED = tuple(f":(exclude){path}" for path in layout.NOT_COMMITTED)


def prepare(cell: Cell) -> bool:
    """The clone is there and as the branch, as far as the repository can be reached and takes what an earlier run left;
    False for an agent without a mind. Never raises."""
    bot, mind = Below(cell.boot.places.bot), cell.boot.places.mind
    try:
        is_there = bot.is_directory(MIND) and os.path.isdir(f"{mind}/.git")
        try:
            if is_there:
                _bring_together(cell)
        except GitError as error:
            if error.is_machines:
                raise
            _clone_anew(cell, str(error))
        if not is_there:
            _clone_anew(cell, "it is no clone of git's")
    except (GitError, OSError, ValueError) as error:
        cell.log.info("mind.not_prepared", error=str(error))
    if not os.path.isdir(f"{mind}/.git"):
        return False
    with contextlib.suppress(OSError):  # something else has this name; who needs the folder says so
        for folder in layout.FOLDERS:
            os.makedirs(f"{mind}/{folder}", exist_ok=True)
    with contextlib.suppress(OSError):
        _link_events(cell)
    return True


def put_right(cell: Cell, name: str, tip: str = _REMOTE) -> list[str]:
    """The files that are the PM's alone, by content and not by the index, also where git sees none: as they were where
    the clone left the branch; and the drift report says so. Raises GitError, OSError."""
    git = git_of(cell)
    base = git("merge-base", "HEAD", tip)
    git("read-tree", "HEAD")  # and with the index go all bits that hide a change
    changed = git.raw("diff", "--name-only", "--no-renames", "-z", base, "--", *layout.PM_ONLY)
    others = git.raw("ls-files", "--others", "-z", "--", *layout.PM_ONLY)  # a repository's name ends with a slash
    wrong = sorted({path.rstrip("/") for path in (*_names(changed), *_names(others))})
    _put_back(cell, base, dict.fromkeys(wrong, "the PM's alone"), name)
    if wrong:
        mind, lines = cell.boot.places.mind, "".join(f"- put back as the branch has it: {path!a}\n" for path in wrong)
        text = Below(mind).tail(layout.DRIFT_REPORTS, MOST_REPORT_BYTES).decode(errors="replace") or "# Drift reports\n"
        write(mind, layout.DRIFT_REPORTS, with_section(text, timestamp(cell.wall()), f"\n{lines}"))
    return wrong


def publish(cell: Cell, subject: str, name: str) -> bool:
    """Commit what changed and push it; whether the branch has it all then. What the door refuses is kept in
    `scratch/put-back/NAME`. Never raises."""
    try:
        if not os.path.isdir(f"{cell.boot.places.mind}/.git"):
            return False
        git_of(cell)("symbolic-ref", "HEAD", _REF)
        tip = resolve_commit(git_of(cell), _REMOTE) or CloneTip(git_of(cell), MIND).look()
        return _push(cell, tip, subject, name)
    except (GitError, OSError, ValueError) as error:
        cell.log.info("mind.not_pushed", error=str(error))
        return False


def _bring_together(cell: Cell) -> None:
    """Raises GitError, OSError."""
    git, name = git_of(cell), f"left-{timestamp(cell.wall())}"
    git("symbolic-ref", "HEAD", _REF)
    tip = CloneTip(git, MIND).look()
    put_right(cell, name, tip)
    if missing := git.raw("ls-files", "--deleted", "-z"):  # nobody meant it to go, or it goes again
        git("checkout-index", "-z", "--stdin", stdin=missing)
    _push(cell, tip, "what an earlier run left", name)


def _clone_anew(cell: Cell, why: str) -> None:
    """What is in its place is set aside, whole. Raises OSError, and GitError when there is none to clone; then nothing
    is changed."""
    new = f"{cell.boot.places.bot}/.{MIND}.new"
    shutil.rmtree(new, ignore_errors=True)  # of a runner that was killed
    options = ("--quiet", "--template=", "--no-tags", "--single-branch", "--branch", MIND)
    Git("/", AGENT)("clone", *options, "--end-of-options", cell.boot.remote_url, new)
    aside = Below(cell.boot.places.bot).set_aside(MIND, unless=lambda mode: False)
    os.rename(new, cell.boot.places.mind)
    cell.log.info("mind.cloned", why=why, aside=aside)


def _push(cell: Cell, tip: str, subject: str, name: str) -> bool:
    """What lies in the clone, committed on top of its own commits and brought together with the branch, which was at
    `tip`; whether the branch has it. Raises GitError, OSError."""
    git = git_of(cell)
    for _ in range(ATTEMPTS):
        head = _commit(cell, subject)
        if head != tip:
            head = _merge(cell, tip, name)
        if head == tip or git.ok("diff", "--quiet", tip, head, "--"):
            git("update-ref", _REF, tip)
            return True
        try:
            if CloneTip(git, MIND).move(tip, head):
                cell.log.info("mind.pushed", commit=head, subject=subject)
                return True
            tip = CloneTip(git, MIND).look()
        except GitError as error:
            if not error.is_refusal:
                raise
            put_back = _put_back_refused(cell, tip, refusals_in(error.stderr), name)
            if not put_back and git("rev-list", "--count", f"{tip}..{head}") == "1":
                cell.log.info("mind.refused", commit=head, error=cut(error.stderr.strip(), 2000))
                return False
            git("update-ref", _REF, tip)  # as one commit: what is wrong may be in an older one as well
    cell.log.info("mind.not_pushed", error=f"{ATTEMPTS} pushes lost, or were refused in part; the commit goes later")
    return False


def _commit(cell: Cell, subject: str) -> str:
    """All that lies in the clone but repositories inside and what is never committed; gives the clone's commit. Raises
    GitError, OSError."""
    git = git_of(cell)
    # What the cell wrote there may say that nothing has changed, or is to be looked at.
    Below(git.directory).unlink(".git/info/exclude")
    git("read-tree", "HEAD")
    others = _names(git.raw("ls-files", "-z", "--others", "--exclude-standard", "--", ".", *_EXCLUDED))
    inner = [f":(exclude,literal){path.rstrip('/')}" for path in others if path.endswith("/")]  # repositories
    try:
        git("add", "--all", "--ignore-errors", "--", ".", *_EXCLUDED, *inner)
    except GitError as error:
        if error.status != 1:  # of some file, which stays in the clone
            raise
    tree = git("write-tree")
    head, before = git("rev-parse", "HEAD", "HEAD^{tree}").split()
    if tree != before:
        head = commit_tree(git, tree, (head,), cut(one_line(subject), 200))
        git("update-ref", _REF, head)
    return head


def _merge(cell: Cell, tip: str, name: str) -> str:
    """Where both sides changed the same, or one removed the file, the branch's stands; gives the clone's commit. Raises
    GitError, OSError."""
    git = git_of(cell)
    try:
        git("merge", "--quiet", "--strategy-option=theirs", "--no-edit", tip)
    except GitError:
        unmerged = _names(git.raw("diff", "--name-only", "--diff-filter=U", "-z"))
        if not unmerged:
            raise
        _put_back(cell, tip, dict.fromkeys(unmerged, "the branch has it otherwise"), name)
        git("commit", "--quiet", "--no-edit")
    return git("rev-parse", "HEAD")


def _put_back_refused(cell: Cell, tip: str, refused: Iterable[Refused], name: str) -> bool:
    """Whether there was something. Raises GitError, OSError."""
    changed = _names(git_of(cell).raw("diff", "--name-only", "--no-renames", "-z", tip, "HEAD", "--"))
    why = {path: each.why for path in changed for each in refused if each.path and is_below(path, (each.path,))}
    _put_back(cell, tip, why, name)
    return bool(why)


def _put_back(cell: Cell, tip: str, why: Mapping[str, str], name: str) -> None:
    """These paths as the branch has them, and what was there in `scratch/put-back`. Raises GitError, OSError."""
    mind = cell.boot.places.mind
    for path, words in why.items():
        at = ""
        if Below(mind).status(path):
            at = f"{layout.PUT_BACK}/{name}/{path}".replace("/.", "/_")  # a name with a dot could be one that git reads
            at = f"{at}.{time.time_ns()}" if os.path.lexists(f"{mind}/{at}") else at
            os.makedirs(os.path.dirname(f"{mind}/{at}"), exist_ok=True)
            os.rename(f"{mind}/{path}", f"{mind}/{at}")
        cell.log.info("mind.put_back", path=path, why=words, at=at)
    if why:  # there may be more than a command line holds
        git, how = git_of(cell), ("--quiet", "--pathspec-from-file=-", "--pathspec-file-nul")
        git("--literal-pathspecs", "reset", *how, tip, stdin=_listed(why))
        there = [path for path in _names(git.raw("ls-files", "-z")) if path in why]
        git("checkout-index", "--quiet", "--force", "-z", "--stdin", stdin=_listed(there))


def _link_events(cell: Cell) -> None:
    """The clone shows the keep's log; whatever else has its name is moved beside. Raises OSError."""
    path = f"{cell.boot.places.mind}/{layout.EVENTS}"
    if os.path.islink(path) and os.readlink(path) == layout.EVENTS_LINK:
        return
    if aside := Below(cell.boot.places.mind).set_aside(layout.EVENTS, unless=lambda mode: False):
        cell.log.info("mind.set_aside", at=aside)
    os.symlink(layout.EVENTS_LINK, path)


def _listed(names: Iterable[str]) -> bytes:
    return "".join(f"{name}\0" for name in names).encode(errors="surrogateescape")


def _names(listed: bytes) -> list[str]:
    return [path for path in listed.decode(errors="surrogateescape").split("\0") if path]
