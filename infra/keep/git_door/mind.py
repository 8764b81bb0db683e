"""What may land on the branch `mind`, beside what holds for every branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from infra.keep.folding import folded
from infra.keep.git_door.notes import rests_on
from infra.keep.git_door.push import HEADS, Push
from infra.keep.git_door.ref_names import MIND_REF, shown
from infra.keep.git_door.rules import Rule, Words, World
from infra.keep.taint import refusal_on_mind, words
from infra.shared.branches import MIND
from infra.shared.mind import layout
from infra.shared.mind.inbox_edits import answered_in, problem_with_agents_inbox
from infra.shared.mind.layout import is_below, is_guarded_in_mind
from infra.shared.mind.loss import MindHoldings, holdings, losses
from infra.shared.mind.questions import new_question
from infra.shared.refused import LOSSES, TAINTED
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file

_BACK = f"git checkout origin/{MIND} --"


def _history(push: Push, world: World) -> Iterator[Words]:
    """The mind's history and main's have no commit in common."""
    if push.ref == MIND_REF:
        for root in push.git("rev-list", "--max-parents=0", push.tip, f"^{push.old}", "--").split()[:1]:
            yield (
                "",
                f"commit {root[:12]} has a beginning of its own, and the history of {MIND} has one; commit on top of "
                f"origin/{MIND} (git rebase --onto origin/{MIND})",
            )
    elif push.ref.startswith(HEADS) and MIND_REF in push.refs and push.git.ok("merge-base", MIND_REF, push.tip):
        yield (
            "",
            f"commit {push.tip[:12]} has its history from the branch {MIND!r}, which is pushed to {MIND} alone; "
            "make the commit on a branch that began at main",
        )


def _files(push: Push, world: World) -> Iterator[Words]:
    there = _listed(push.git, push.tip)
    for path, change in push.changed.items():
        name = "/".join(map(folded, path.split("/")))
        size = there.get(path, 0)
        if is_below(name, layout.PM_ONLY):
            yield (
                path,
                f"{shown(path)} is the PM's alone; put it back ({_BACK} PATH, or git rm for a new one), and propose "
                f"the change in {layout.IMPROVEMENTS}",
            )
        elif change.mode and is_below(name, layout.NOT_COMMITTED):
            yield (
                path,
                f"{shown(path)} is never committed: it lives in the clone and in backups; take it out (git rm "
                "--cached), and leave .gitignore as it is",
            )
        elif size > layout.MOST_FILE_BYTES:
            yield (
                path,
                f"{shown(path)} has {size:,} bytes, and a file of the mind has at most {layout.MOST_FILE_BYTES:,}; "
                "shorten it, or move older sections to memory/archive/",
            )
    if len(there) > layout.MOST_FILES:
        yield (
            "",
            f"the mind would hold {len(there):,} files, over the limit of {layout.MOST_FILES:,}; join or remove some",
        )


def _losses(push: Push, world: World) -> Iterator[Words]:
    """What the branch holds against what it held before this push: one push does not wipe what the mind knows. What is
    worn away slowly, the keep's snapshots bring back."""
    for path, what in losses(_holdings(push.git, push.base), _holdings(push.git, push.tip)):
        yield (
            path,
            f"{what} in {path} would be gone at once, and at most a third may go in a push; put them back ({_BACK} "
            "PATH), mark what is wrong as deprecated, or ask the PM to take it out",
        )


def _orders(push: Push, world: World) -> Iterator[Words]:
    """What makes a later run begin: a task is the PM's word, and a question must not be a page's."""
    if layout.INBOX in push.changed:
        answered = answered_in(_listed(push.git, push.tip))
        problem = problem_with_agents_inbox(*_texts(push, layout.INBOX), answered)
        if problem:
            yield layout.INBOX, f"{problem}; put the file back ({_BACK} {layout.INBOX})"
    questions = layout.OPEN_QUESTIONS
    if world.taint and questions in push.changed:
        asked = new_question(*_texts(push, questions))
        if asked:
            yield (
                questions,
                f"{questions} asks {asked} anew, which later work would follow, and {words(world.taint)}; put it back "
                f"({_BACK} {questions}), and ask in your report",
            )


def _tainted(push: Push, world: World) -> Iterator[Words]:
    """But for what rests on notes which no page can have put into their run."""
    guarded = [path for path in push.changed if is_guarded_in_mind(path)] if world.taint else []
    for path in guarded:
        if world.taint and not (path in layout.NOTED and rests_on(world.is_clean, *_texts(push, path))):
            yield path, refusal_on_mind(world.taint, path)


def _texts(push: Push, path: str) -> tuple[str, str]:
    """Before and after; empty for what is not there."""
    return read_file(push.git, push.base, path) or "", read_file(push.git, push.tip, path) or ""


def _holdings(git: Git, commit: str) -> MindHoldings:
    beliefs, long_term = (read_file(git, commit, path) or "" for path in (layout.BELIEFS, layout.LONG_TERM))
    return holdings(beliefs, long_term, _listed(git, commit))


def _listed(git: Git, commit: str) -> Mapping[str, int]:
    """Bytes of each file."""
    listed = git.raw("ls-tree", "-r", "-l", "-z", "--full-tree", commit).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in filter(None, listed.split("\0")))
    return {path: int(size) for words, _, path in lines if (size := words.split()[3]).isdecimal()}


def rules_for(ref: str) -> tuple[tuple[str, Rule], ...]:
    return (("history", _history), *(_OF_THE_MIND if ref == MIND_REF else ()))


_OF_THE_MIND: tuple[tuple[str, Rule], ...] = (
    ("file", _files),
    (LOSSES, _losses),
    ("orders", _orders),
    (TAINTED, _tainted),
)
