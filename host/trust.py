"""What the agent has read on the web, as the PM is told of it, and `minifram trust`, which lifts the taint."""

from __future__ import annotations

import time

from host.cli import command
from host.home import AgentPaths, Context
from host.repository import git_on, open_as_pm
from host.screen import Say, Shown
from infra.keep.repository.bare_tip import BareTip
from infra.keep.settings.check import SettingsError, read_settings
from infra.keep.taint import TRAILER, Taint, look, origins_words
from infra.shared.clock import timestamp
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import Git
from infra.shared.repository.tip import advance, commit_tree


@command
def trust(context: Context, say: Say) -> Shown:
    """Trust what the agent has read on the web until now.

    From the first page that it reads, what steers it comes onto main by your merge alone, and its skills and
    summaries stay as they are. This lifts that until it reads the next page. It is a commit of yours on main with the
    trailer 'Trust: web', which you can make by hand as well.
    """
    home, git = context.initialised(), open_as_pm(context)
    taint = taint_of(home, git)
    if taint is None:
        return Shown(
            {"commit": "", "origins": [], "tainted": False}, "there is nothing to trust: the agent is not tainted"
        )
    time.sleep(1.0 - time.time() % 1.0)  # a commit's date is in whole seconds, and covers what came before it
    message = f"Trust what the agent has read\n\nIt had read {origins_words(taint.origins)}.\n\n{TRAILER}: web\n"

    def next_commit(seen: str) -> str:
        return commit_tree(git, git("rev-parse", f"{seen}^{{tree}}"), (seen,), message)

    commit = advance(BareTip(git), next_commit)
    left = taint_of(home, git)
    value = {"commit": commit, "origins": list(taint.origins), "tainted": bool(left)}
    if left:
        is_ahead = left.until > time.time()
        when = f"after {timestamp(left.until)}: the clock was ahead when that was served" if is_ahead else "again"
        return Shown(value, f"still {words_of(left)}", f"Run 'minifram trust' {when}.", Exit.FAILURE)
    advice = "Until it reads the next page, the agent moves main as 'autonomy' says."
    return Shown(value, f"trusted: {words_of(taint)}", advice)


def taint_of(home: AgentPaths, git: Git | None = None) -> Taint | None:
    """Of the agent, as the keep would find it now; None where the PM's settings turn that off."""
    try:
        if not read_settings(home.settings).web.taints:
            return None
    except SettingsError:
        pass  # the keep runs by those that it read last
    return look(home.places.var, git or git_on(home.remote), time.time(), keep=False)


def words_of(taint: Taint | None) -> str:
    """One line; empty for none."""
    return f"tainted by {origins_words(taint.origins)} since {timestamp(taint.since)}" if taint else ""
