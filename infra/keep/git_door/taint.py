"""The taint of the work under way, kept in the keep's var: looked at before each push and each request, and when main
moves. What decides by it is pure (`shared.taint.machine`)."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from infra.keep.git_door import work
from infra.shared import approvals, comms
from infra.shared.branches import MAIN, MIND
from infra.shared.files import write_whole
from infra.shared.folding import folded
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import PAGE
from infra.shared.taint import machine, state_file, trace
from infra.shared.taint.machine import (
    EVERYTHING,
    MIND_ALL,
    MIND_PREFIX,
    MOST_HELD,
    MOST_PUSHED_PATHS,
    OTHERS,
    UNKNOWN,
    Taint,
    TaintedPush,
    TaintState,
)
from infra.shared.taint.mind import in_state, is_guarded_in_mind
from infra.shared.text import cut
from infra.shared.verdicts.guarded import GUARDED, is_guarded, top_of

if TYPE_CHECKING:
    from infra.keep.git_door.decide import Update

Left = Callable[[float], Iterable[str] | None]
"""Guarded files of the cell's clones that are not as main has them and were written since a moment; None when that
cannot be told."""
SHOWN_CHARS = 300
"""Of a path in the record of a push."""
MAIN_REF, MIND_REF = f"refs/heads/{MAIN}", f"refs/heads/{MIND}"


def at_push(var: str, git: Git, at: float) -> TaintState:
    """Before a push is judged. A taint does not end here: the door's other half sees what clones hold. Raises OSError,
    GitError."""
    if not state_file.is_there(var):
        return TaintState()
    with _locked(var):
        before = state_file.read(var)
        state = _with_served(before, var, git, at)
        _write(var, before, state)
    return state


def brought(state: TaintState, git: Git, update: Update) -> Update:
    """With the commits of tainted pushes that it brings onto main. `git` sees what is pushed. Raises GitError."""
    undecided = [push for push in state.pushes if machine.is_undecided(push)]
    if update.ref != MAIN_REF or not (undecided and update.new and update.old and update.names_commit):
        return update
    tips = {push.commit for push in undecided}
    others = {push.before for push in undecided if push.before} - tips
    asked = "".join(f"{each}\n" for each in (*tips, *(f"^{each}" for each in (*others, update.old))))
    theirs = git("rev-list", "--ignore-missing", "--stdin", stdin=asked.encode()).split()
    coming = git("rev-list", update.new, f"^{update.old}", "--").split() if theirs else ()
    return update._replace(tainted=tuple(set(theirs).intersection(coming)))


def note_push(var: str, git: Git, origins: tuple[str, ...], updates: Sequence[Update], taken: bool, at: float) -> None:
    """A push was judged as that of work tainted by these origins, also when that ends meanwhile. Raises OSError,
    GitError."""
    with _locked(var):
        before = state_file.read(var)
        pushes, touched = list[TaintedPush](), dict[str, None]()
        for update in updates:
            is_mind = update.ref == MIND_REF
            guarded = in_state(update.changed) if is_mind else [path for path in update.changed if is_guarded(path)]
            touched |= dict.fromkeys(guarded)
            shown = tuple(cut(path, SHOWN_CHARS) for path in guarded[:MOST_PUSHED_PATHS])
            pushes.append(TaintedPush(at, update.ref, _tip(update), origins, shown, taken, update.old or ""))
        _write(var, before, machine.pushed(before, pushes, entries_of_main(git, _few(touched)), origins))


def _tip(update: Update) -> str:
    """Of a tag, the commit that it came with."""
    return update.new_commits[0].id if update.new_commits else update.new or ""


def look(var: str, git: Git, left: Left | None, at: float) -> TaintState:
    """Before a request is answered, and when main has moved. Without `left`, for who may not read the cell's files, no
    taint ends. When it cannot be told, the work is tainted by an unknown origin."""
    if not state_file.is_there(var):
        return TaintState()
    try:
        with _locked(var):
            before = state_file.read(var)
            state = _with_served(before, var, git, at)
            if state.now or state.past:
                state = _with_directives(state, _open_work(var, git), left, git, at)
            if state.held:
                state = machine.decided(state, entries_of_main(git, state.held))
            _write(var, before, state)
    except (OSError, GitError, comms.CommsError):
        state = state_file.present(var, at)
        return state if state.now else state._replace(now=Taint(at, (UNKNOWN,)))
    return state


def end_work(var: str, git: Git, tied: Iterable[str], at: float) -> None:
    """A report has ticked directives; `tied`: those of the work when it came. Raises OSError, GitError."""
    if not state_file.is_there(var):
        return
    with _locked(var):
        before = state_file.read(var)
        _write(var, before, machine.reported(before, tied, _open_work(var, git), at))


def next_work(var: str) -> None:
    """What comes now is other work than what was reported: every process of that has ended. Raises OSError."""
    if not state_file.is_there(var):
        return
    with _locked(var):
        before = state_file.read(var)
        _write(var, before, machine.followed(before))


def entries_of_main(git: Git, paths: Iterable[str]) -> dict[str, str]:
    """What main has at each of these paths, in git's words; empty for nothing. Raises GitError."""
    wanted = list(paths)
    if not wanted:
        return {}
    if of_mind := [path for path in wanted if path.startswith(MIND_PREFIX)]:
        others = entries_of_main(git, [path for path in wanted if not path.startswith(MIND_PREFIX)])
        return others | _entries_of_mind(git, of_mind)
    # Also a directory in which another of the paths lies (-t); none is a pattern, whatever it begins with.
    there = _listed(git, "-t", wanted)
    if OTHERS in wanted:
        every = "".join(f"{words} {path}\0" for path, words in _listed(git, "-r").items() if _is_other(path))
        there[OTHERS] = hashlib.sha256(every.encode(errors="surrogateescape")).hexdigest() if every else ""
    return {path: there.get(path, "") for path in wanted}


def _entries_of_mind(git: Git, wanted: Iterable[str]) -> dict[str, str]:
    """The same of the branch `mind`, by paths with its prefix."""
    if not git.ok("show-ref", "--verify", "--quiet", MIND_REF):
        return dict.fromkeys(wanted, "")
    paths = [path.removeprefix(MIND_PREFIX) for path in wanted if path != MIND_ALL]
    there = {f"{MIND_PREFIX}{path}": words for path, words in _listed(git, "-t", paths, MIND_REF).items()}
    every = _listed(git, "-r", (), MIND_REF)
    guarded = "".join(f"{words} {path}\0" for path, words in every.items() if is_guarded_in_mind(path))
    there[MIND_ALL] = hashlib.sha256(guarded.encode(errors="surrogateescape")).hexdigest()
    return {path: there.get(path, "") for path in wanted}


def _listed(git: Git, how: str, paths: Iterable[str] = (), ref: str = MAIN_REF) -> dict[str, str]:
    """Entries of main, by their paths. Raises GitError."""
    listed = git.raw("--literal-pathspecs", "ls-tree", how, "-z", "--full-tree", ref, "--", *paths)
    lines = (line.partition("\t") for line in listed.decode(errors="surrogateescape").split("\0") if line)
    return {path: words for words, _, path in lines}


def _is_other(path: str) -> bool:
    return is_guarded(path) and folded(top_of(path)) not in GUARDED


def _with_served(state: TaintState, var: str, git: Git, at: float) -> TaintState:
    read = trace.read_since(f"{var}/{state_file.TRACE}", state.mark)
    if read.origins:
        try:
            open_ids = tuple(_open_work(var, git))
        except (GitError, comms.CommsError):
            open_ids = None
        state = machine.served(state, read.origins, open_ids, min(read.since, at))
    return state._replace(mark=read.mark)


def _with_directives(state: TaintState, texts: Mapping[str, str], left: Left | None, git: Git, at: float) -> TaintState:
    state, is_at_end = machine.looked(state, texts)
    if is_at_end and state.now and left:
        found = left(state.now.since)
        paths = EVERYTHING if found is None else _few(dict.fromkeys(found))
        state = machine.ended(state, entries_of_main(git, paths), at)
    return machine.served(state, machine.goes_on_from_tainted(state, texts), texts, at)


def _open_work(var: str, git: Git) -> dict[str, str]:
    """The open directives of main that are work, by their ids, and the task that is under way. Raises GitError,
    CommsError."""
    page = git.raw("cat-file", "blob", f"{MAIN_REF}:{PAGE}").decode(errors="surrogateescape")
    found = {each.id: each.text for each in comms.open_directives(page) if not approvals.answers_in(each)}
    task = work.under_way(var)
    return found | ({task: ""} if task else {})


def _few(paths: Mapping[str, None]) -> Iterable[str]:
    """Of too many, the directories and files at the top that hold them."""
    return paths if len(paths) <= MOST_HELD else dict.fromkeys(map(top_of, paths))


@contextlib.contextmanager
def _locked(var: str) -> Iterator[None]:
    """One at a time, of all processes. Raises OSError."""
    descriptor = os.open(f"{var}/{state_file.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(var: str, before: TaintState, state: TaintState) -> None:
    if state != before:
        write_whole(f"{var}/{state_file.NAME}", state_file.encode(state), mode=0o600)
