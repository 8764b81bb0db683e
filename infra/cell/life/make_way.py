"""Whether main's runner makes way for newer code, and signalling `bootstrap main`, which ends a hop as well."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.cell.cell import Cell
from infra.shared.branches import MAIN
from infra.shared.repository.git import GitError
from infra.shared.repository.version import body_of
from infra.shared.signals import Signal, SignalName, write_signal

PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""A full disk may be emptied; the watcher counts its own time from the signal on."""


def signal_main(context: Cell, why: str, pause: Callable[[float], None] = time.sleep) -> bool:
    """Signal `bootstrap main`; False when the disk refused to the end. Raises Interrupted."""
    for seconds in (*PAUSES_SECONDS, 0.0):
        try:
            write_signal(context.boot.places.signals, Signal(SignalName.BOOTSTRAP, MAIN))
        except OSError as error:
            context.log.error("signal.not_written", signal="bootstrap", target=MAIN, error=str(error))
            with context.interruption:
                pause(seconds)
        else:
            context.log.info("signal.written", signal="bootstrap", target=MAIN, why=why)
            return True
    return False


def is_outdated(context: Cell, main: str) -> bool:
    """Whether main holds another version than this runner was started for. Raises GitError."""
    runs = context.boot.instead_of or context.boot.commit
    return body_of(context.git, runs) != body_of(context.git, main)


def catch_up(context: Cell, main: str) -> None:
    """Bring the checkout to main when that loses nothing: it is clean, on main, and only behind."""
    git = context.git
    try:
        head, branch = context.head(), git("rev-parse", "--abbrev-ref", "HEAD")
        if head == main:
            return
        dirty = git("status", "--porcelain").splitlines()
        if branch == context.boot.branch and not dirty and git.ok("merge-base", "--is-ancestor", head, main):
            git("merge", "--quiet", "--ff-only", main)
            context.log.info("checkout.caught_up", before=head, after=main)
        else:
            context.log.warning("checkout.left", head=head, main=main, on=branch, uncommitted=len(dirty))
    except GitError as error:  # a lock that was left behind: the model sees the state of the checkout, and has git
        context.log.warning("checkout.left", main=main, error=str(error))
