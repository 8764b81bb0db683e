"""What every part of a runner needs: its boot value, checkout, git, page, log, status, state, model and heartbeat."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from infra.cell.doors import Keep, Model
from infra.cell.interruption import Interruption
from infra.cell.page import Page
from infra.cell.services.services import Services
from infra.cell.state import State
from infra.cell.status import StatusFile
from infra.shared.boot import Boot
from infra.shared.clock import timestamp
from infra.shared.conversation import Completion, Request
from infra.shared.heart import Heart
from infra.shared.paths import LIFE_FILE, Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.version import body_of

if TYPE_CHECKING:
    from infra.shared.log import Log

ASK_SECONDS = 1800.0
"""The longest a single model call may take. The door itself gives up a silent provider long before."""
TENDING_SECONDS = 900.0
"""For some git calls in a row (a look at the page, a report), each of which has a limit of its own."""


class Cell(NamedTuple):
    boot: Boot
    checkout: str
    git: Git
    page: Page
    log: Log
    status: StatusFile
    state: State
    interruption: Interruption
    ask: Callable[[Request], Completion]
    """One model call. Raises ModelFailure, Interrupted."""
    heartbeat: Heart
    keep: Keep
    pause: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    services: Services | None = None
    """What the agent keeps running; main's runner alone has it."""

    def head(self) -> str:
        """The commit that the checkout is at now; this process was started from `boot.commit`."""
        return self.git("rev-parse", "--verify", "HEAD")

    def is_sound(self) -> bool:
        """Whether the checkout is still a clone with a commit."""
        with contextlib.suppress(GitError):
            return bool(self.head())
        return False

    def is_outdated(self, main: str) -> bool:
        """Whether main holds another version than this runner was started for. Raises GitError."""
        runs = self.boot.instead_of or self.boot.commit
        return body_of(self.git, runs) != body_of(self.git, main)

    def now(self) -> str:
        return timestamp(self.wall())


def cell_of(boot: Boot, checkout: str, interruption: Interruption, heartbeat: Heart | None = None) -> Cell:
    """The context of the runner that `boot` starts in `checkout`."""
    log = logger(boot)
    link_signals(boot, checkout, log)
    git = agent_git(checkout, boot.places)
    with contextlib.suppress(GitError):  # who turned away from it by mistake hears the PM again; the page says the rest
        git("config", "--replace-all", "remote.origin.url", boot.remote_url)
    state, keep = State(boot.places.bot, log), Keep(boot.places.git_socket)

    def ask_door(request: Request) -> Completion:
        with interruption:
            return Model(boot.places.model_socket).complete(request, ask_seconds(boot))

    return Cell(
        boot=boot,
        checkout=checkout,
        git=git,
        page=Page(git, state, boot, keep, log),
        log=log,
        status=StatusFile(os.path.join(checkout, LIFE_FILE), log),
        state=state,
        interruption=interruption,
        ask=ask_door,
        heartbeat=heartbeat or Heart(),
        keep=keep,
    )


def logger(boot: Boot) -> Log:
    """Events `dotted.past_tense` with their facts on stderr, which the watcher has pointed at logs/errors.log."""
    import structlog  # the command reads what a runner wrote, and should start fast

    from infra.shared.log import COMMON, LAST

    log: Log = structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),  # each line in one write; a full disk is no error (`guard_stderr`)
        processors=[*COMMON, *LAST],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return log.bind(branch=boot.branch, commit=boot.commit, boot_id=boot.id)


def agent_git(clone: str, places: Paths) -> Git:
    """Git in the agent's name with the cell's settings, by which a push by path goes through the git door."""
    return Git(clone, AGENT, {"GIT_CONFIG_GLOBAL": places.cell_git_config})


def link_signals(boot: Boot, checkout: str, log: Log) -> None:
    """Let `.signal` in the checkout lead to the one directory that the watcher looks into (`SPEC_SIGNALS`).

    The clone's own exclude file keeps it out of git, so that no branch has to."""
    link, exclude = os.path.join(checkout, ".signal"), os.path.join(checkout, ".git/info/exclude")
    try:
        if not os.path.lexists(link):
            os.makedirs(os.path.dirname(exclude), exist_ok=True)
            with open(exclude, "a", encoding="utf-8") as file:
                file.write("/.signal\n")
            os.symlink(os.path.relpath(boot.places.signals, checkout), link)
    except OSError as error:
        log.warning("signals.not_linked", error=str(error))


def ask_seconds(boot: Boot) -> float:
    return min(ASK_SECONDS, boot.limits.run_seconds)
