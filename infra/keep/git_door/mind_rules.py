"""What the agent may change of the mind: the files before and after a push in, each refused path and why out. Pure.

A losing push names each path that it loses; what is worn away slowly, the keep's snapshots bring back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from infra.keep.folding import folded
from infra.keep.git_door.notes import rests_on
from infra.keep.git_door.ref_names import shown
from infra.keep.git_door.rules import Words
from infra.keep.taint import Taint, refusal_on_mind, words
from infra.shared.branches import MIND
from infra.shared.mind import layout
from infra.shared.mind.layout import is_below, is_guarded_in_mind
from infra.shared.mind.questions import new_question
from infra.shared.mind.sections import sections
from infra.shared.mind.tasks import TASK_ID, block_texts, ids_in

LEAST = 3
"""Of fewer than so many, any may go."""
_FACT = re.compile(r"[BL]-[0-9]{1,12}")
_SKILL = re.compile(
    rf"({'|'.join((layout.LEARNED, layout.CANDIDATES, layout.DEPRECATED, layout.FAILED))})/([^/]+)/SKILL.md"
)
_ITS_ID = re.compile(rf"^task_id[ \t]*:[ \t]*[\"']?({TASK_ID.pattern})", re.MULTILINE)
_BACK = f"git checkout origin/{MIND} --"


class MindVersion(NamedTuple):
    sizes: Mapping[str, int]
    """Bytes of each file."""
    text: Callable[[str], str]
    """Of a file; empty for what is not there."""


class MindChange(NamedTuple):
    paths: Collection[str]
    """All that differ."""
    before: MindVersion
    after: MindVersion


def files(change: MindChange) -> Iterator[Words]:
    for path in change.paths:
        name = "/".join(map(folded, path.split("/")))
        size = change.after.sizes.get(path)
        if is_below(name, layout.PM_ONLY):
            why = f"is the PM's alone; put it back ({_BACK} PATH, or git rm for a new one), and propose the change in "
            yield path, f"{shown(path)} {why}{layout.IMPROVEMENTS}"
        elif size is not None and is_below(name, layout.NOT_COMMITTED):
            why = "is never committed: it lives in the clone and in backups; take it out (git rm --cached), and leave "
            yield path, f"{shown(path)} {why}.gitignore as it is"
        elif size and size > layout.MOST_FILE_BYTES:
            why = f"has {size:,} bytes, and a file of the mind has at most {layout.MOST_FILE_BYTES:,}; shorten it, or "
            yield path, f"{shown(path)} {why}move older sections to {layout.ARCHIVE}/"
    if (count := len(change.after.sizes)) > layout.MOST_FILES:
        over = f"the mind would hold {count:,} files, over the limit of {layout.MOST_FILES:,}; join or remove some"
        yield "", over


def losses(change: MindChange) -> Iterator[Words]:
    """Where more than a third would be gone at once: of entries, or of learned skills. One in another folder is not."""
    for path in (layout.BELIEFS, layout.LONG_TERM):
        if path in change.paths:
            had, has = _facts(change.before.text(path)), _facts(change.after.text(path))
            yield from _loss(had, had - has, "entries", path, [path])
    learned = {name for folder, name in _skills(change.before.sizes) if folder == layout.LEARNED}
    gone = learned - {name for _, name in _skills(change.after.sizes)}
    roots = tuple(f"{layout.LEARNED}/{name}" for name in gone)
    paths = [path for path in change.paths if path not in change.after.sizes and is_below(path, roots)]
    yield from _loss(learned, gone, "skills", layout.LEARNED, paths)


def _loss(had: set[str], gone: set[str], noun: str, where: str, paths: Iterable[str]) -> Iterator[Words]:
    for path in paths if len(had) >= LEAST and 3 * len(gone) > len(had) else ():
        yield (
            path,
            f"{len(gone)} of {len(had)} {noun} in {where} would be gone at once, and at most a third may go in a push; "
            f"put them back ({_BACK} PATH), mark what is wrong as deprecated, or ask the PM to take it out",
        )


def _facts(text: str) -> set[str]:
    """Of a heading with nothing below it, what it stood for is gone."""
    return {each.id for each in sections(text) if _FACT.fullmatch(each.id) and each.body.strip()}


def _skills(paths: Iterable[str]) -> set[tuple[str, str]]:
    """Folder and name of each."""
    return {(match[1], match[2]) for match in map(_SKILL.fullmatch, paths) if match}


def inbox(change: MindChange) -> Iterator[Words]:
    """A task is the PM's word: the agent takes those out that are answered, and does nothing else."""
    path = layout.INBOX
    had, has = (block_texts(version.text(path)) for version in (change.before, change.after))
    new = [each.partition("\n---")[0] for each in has if each not in had] if path in change.paths else []
    for head in new[:1]:
        id = min(ids_in(head), default="a task without an id")
        what = "changes" if any(id in ids_in(each.partition("\n---")[0]) for each in had) else "adds"
        why = f"it {what} {id}; tasks are the PM's, and the agent only takes out what is done"
        yield path, f"{path}: {why}; put the file back ({_BACK} {path})"
    for id in [match[1] for each in had if each not in has and (match := _ITS_ID.search(each))]:
        answers = [f"{folder}/{id}.md" for folder in (layout.COMPLETED, layout.BLOCKED)]
        if not new and not any(answer in change.after.sizes for answer in answers):
            why = f"it takes {id} out without an answer; write {', or '.join(answers)}"
            yield path, f"{path}: {why}; put the file back ({_BACK} {path})"


def tainted(change: MindChange, taint: Taint | None, is_clean: Callable[[str], bool]) -> Iterator[Words]:
    """What would steer later work, but for memory that rests on notes which no page can have put into their run."""
    before, after = change.before.text, change.after.text
    for path in change.paths:
        if taint is None:
            return
        if is_guarded_in_mind(path):
            if not (path in layout.NOTED and rests_on(is_clean, before(path), after(path))):
                yield path, refusal_on_mind(taint, path)
        elif path == layout.OPEN_QUESTIONS and (asked := new_question(before(path), after(path))):
            why = f"asks {asked} anew, which later work would follow, and {words(taint)}; put it back ({_BACK} {path})"
            yield path, f"{path} {why}, and ask in your report"


RULES: tuple[tuple[str, Callable[[MindChange], Iterable[Words]]], ...] = (
    ("file", files),
    ("losses", losses),
    ("orders", inbox),
)
"""By the id that a refusal carries; `tainted` has its own."""
