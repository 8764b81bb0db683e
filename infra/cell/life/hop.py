"""A version takes over: a branch's has itself examined by the keep, merges into main if it may, and hands over to main
(`SPEC_BOOT`), always and with a report; main's makes way for what main holds now."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.clone_tip import CloneTip, DoorRefused
from infra.cell.doors import Refused
from infra.cell.status import VALIDATING
from infra.shared.branches import MAIN, version
from infra.shared.door import DoorAway
from infra.shared.exit_codes import Exit
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import GitError
from infra.shared.repository.merge import merge_commit
from infra.shared.repository.tip import advance
from infra.shared.requests import Examination
from infra.shared.signals import Signal, SignalName, write_signal

ROUNDS = 3
"""Main may move while a version is examined; then what would be merged was never examined. And doors restart."""
GRACE_SECONDS = 600.0
"""Over the time that the tests may take: for the rehearsal, and for an examination that came before."""
ASK_AGAIN_SECONDS = 1.0


class MainMoved(Exception):
    """Main has changes that were not there when this version was examined."""


def prove_and_hand_over(cell: Cell) -> Exit:
    """Raises Interrupted, and nothing else: the signal to main is written in every other case."""
    cell.status.show(VALIDATING, about=cell.boot.branch)
    cell.heartbeat.beat("validating", TENDING_SECONDS)
    try:
        title, text = prove(cell)
    except Exception as error:
        cell.log.exception("hop.crashed")
        title, text = f"not validated: {type(error).__name__} in the runner", f"{error}\n\nSee logs/errors.log."
    cell.log.info("hop.judged", verdict=title)
    cell.heartbeat.beat("reporting", TENDING_SECONDS)
    try:
        cell.page.report(title, text)
    except Exception:
        cell.log.exception("hop.not_reported", title=title, text=text)
    return Exit.OK if signal_main(cell, "the hop is over") else Exit.FAILURE


def prove(cell: Cell) -> tuple[str, str]:
    """Have this version examined and merge it if that is allowed; gives the report."""
    trouble = ""
    for _ in range(ROUNDS):
        try:
            main, head = CloneTip(cell.git).look(), cell.head()
            if cell.git.ok("merge-base", "--is-ancestor", head, main):
                return "validated: main already holds it", "There is nothing to merge, and so nothing to examine."
            examined = examination(cell, head)
            cell.heartbeat.beat("validating", TENDING_SECONDS)
            if not examined.passed:
                output = "\n".join(f"    {line}" for line in examined.text.splitlines())
                return f"not validated: {examined.words}", f"{examined.words}\n\n{output}"
            return settle(cell, examined, main)
        except (MainMoved, GitError) as error:
            trouble = str(error)
            cell.log.info("hop.round_lost", error=trouble)
            with cell.interruption:
                cell.pause(ASK_AGAIN_SECONDS)
    why = f"{ROUNDS} rounds were lost"
    return f"not validated: {why}", f"{why}, the last one because {trouble}; bootstrap again later."


def examination(cell: Cell, commit: str, clock: Callable[[], float] = time.monotonic) -> Examination:
    """Ask again and again until the keep has examined this commit of the branch. Raises Interrupted."""
    end, trouble = clock() + cell.boot.limits.validation_seconds + GRACE_SECONDS, ""
    while clock() < end:
        cell.heartbeat.beat("awaiting its examination", TENDING_SECONDS)
        try:
            found = cell.keep.examine(cell.boot.branch, commit)
            if found.state == "examined":
                return found
            trouble = "the keep has not come to an end with it"
        except Refused as no:
            return Examination("examined", words=str(no))
        except DoorAway as error:
            trouble = str(error)
        with cell.interruption:
            cell.pause(ASK_AGAIN_SECONDS)
    return Examination("waiting", words=f"no verdict in time: {trouble}; bootstrap again later")


def settle(cell: Cell, examined: Examination, main: str) -> tuple[str, str]:
    """Merge what was examined together with `main`, or leave it to the PM; gives the report. Raises MainMoved."""
    branch, head, autonomy = cell.boot.branch, cell.head(), cell.boot.autonomy
    validated, review = f"validated: {examined.words}", f"'minifram review {branch}'"
    if examined.needs_word:
        listed = "".join(f"\n- {each}" for each in examined.needs_word)
        return validated, f"Awaiting review: this needs the PM's word ({review}):\n{listed}"
    if autonomy != "merge":
        return validated, f"Awaiting review: autonomy is {autonomy}, so the PM merges ({review})."
    subject = cell.git("log", "-1", "--no-merges", "--format=%s", head)
    message = f"Merge {branch}: {subject}\n\nBranch: {version(branch, head)}\nExamined: {examined.words}\n"

    def next_commit(seen: str) -> str | None:
        if changes_beyond_page(cell.git, main, seen):
            raise MainMoved("main moved while it was examined")
        return merge_commit(cell.git, seen, head, message)

    try:
        into = advance(CloneTip(cell.git, MAIN), next_commit)
    except DoorRefused as no:
        return validated, f"Awaiting review: the git door refused the merge into main. It said:\n\n{no.said}"
    before = cell.git("rev-parse", f"{into}^1")[:12]
    return f"merged into main as {into[:12]}", f"The keep examined it: {examined.words}. Main was at {before} before."


def signal_main(cell: Cell, why: str) -> bool:
    """Signal `bootstrap main`; False when the disk refuses. Main's runner tries again; behind a branch's, which ends,
    the watcher runs main in any case."""
    try:
        write_signal(cell.boot.places.signals, Signal(SignalName.BOOTSTRAP, MAIN))
    except OSError as error:
        cell.log.error("signal.not_written", signal="bootstrap", target=MAIN, error=str(error))
        return False
    cell.log.info("signal.written", signal="bootstrap", target=MAIN, why=why)
    return True


def catch_up(cell: Cell, main: str) -> None:
    """Bring the checkout to main where that loses nothing: git refuses it over other commits, or changes in the same
    files. Then the model sees how the checkout stands, and has git."""
    try:
        if cell.head() != main:
            cell.git("merge", "--quiet", "--ff-only", main)
            cell.log.info("checkout.caught_up", to=main)
    except GitError as error:
        cell.log.warning("checkout.left", main=main, error=str(error))
