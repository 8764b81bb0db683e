"""Commands by which the PM decides about branches and versions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from host.commands.options import branch_argument, command, complete_branch
from host.context import Context
from host.display import Screen, counted, duration, harmless, harmless_lines, one_line, one_name, plain
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.pins import Retried
    from host.repository.merge import Merged, RolledBack
    from host.repository.review import Branch, Review
    from infra.shared.verdicts.verdict import Verdict


@command
@click.argument("branch", required=False, shell_complete=complete_branch)
@click.option("--stat", is_flag=True, help="Only which files change, not how.")
def review(context: Context, screen: Screen, branch: str | None, stat: bool) -> None:
    """List the branches that await your decision, or show the commits, the changes and the examination of one.

    The keep examines the result of the merge: it rehearses that version and runs the tests. The verdict lists the
    tests and their results. The branch's own code runs inside the tests, so the verdict never proves that a branch is
    safe.
    """
    from host.repository.open import open_repository
    from host.repository.review import awaiting, is_pms_own, main_commit, one, rescued
    from infra.shared.taint.state_file import present

    home = context.initialised()
    git = open_repository(home)
    now = time.time()
    if branch is None:
        branches = awaiting(git)
        lines = (line for item in branches for line in _branch(item, screen, now))
        saved = rescued(git, main_commit(git))
        screen.show({"branches": plain(branches), "rescued": plain(saved)}, lines)
        shows = "'minifram review BRANCH' shows one; merge or reject it"
        screen.advise(shows if branches else "no branch awaits review")
        for name, ahead in saved:
            screen.advise(f"saved from a clone, never pushed: {one_name(name)}, {counted(ahead, 'commit')}")
        return
    found = one(git, branch, present(home.places.var, now))
    screen.show(found._replace(diff="") if stat else found, _review(found, stat, screen, now), verbatim=True)
    screen.advise(_next(found.branch, is_pms_own(git, found.main, found.branch.commit)))


def _next(branch: Branch, is_own: bool) -> str:
    """What the PM can do with it; no command that would be refused."""
    from host.repository.review import CONFLICT, NEEDS_WORD, NOT_EXAMINED, PASSED

    name, at = branch.name, f"{branch.name}@{branch.commit[:12]}"
    reject = f"'minifram reject {name} --because …'"
    if branch.verdict == CONFLICT:
        return f"It conflicts with main: have main merged into it and pushed, or: {reject}"
    if is_own or branch.verdict in (PASSED, NEEDS_WORD):
        return f"Next: 'minifram merge {at}'   or   {reject}"
    first = f"'minifram examine {name}'   or   " if branch.verdict == NOT_EXAMINED else ""
    return f"It is {branch.verdict}. Next: {first}'minifram merge {at} --unexamined'   or   {reject}"


def _branch(branch: Branch, screen: Screen, now: float) -> Iterator[str]:
    verdict = screen.good(branch.verdict) if branch.verdict == "passed" else screen.bad(branch.verdict)
    behind = f", {branch.behind} behind" if branch.behind else ""
    yield (
        f"{screen.strong(one_name(branch.name, 200))} @ {branch.commit[:12]} · {counted(branch.ahead, 'commit')} ahead"
        f"{behind} · {counted(len(branch.files), 'file')} · {verdict}"
    )
    yield f"    {one_line(branch.subject)} ({one_name(branch.author, 40)}, {duration(now - branch.committed_at)} ago)"
    if branch.unseen:
        yield screen.bad(f"    not all of it can be shown: {one_line(branch.unseen, 250)}")


def _review(found: Review, stat: bool, screen: Screen, now: float) -> Iterator[str]:
    yield from _branch(found.branch, screen, now)
    if not found.base and not found.branch.unseen:
        yield screen.bad("    it shares no history with main")
    yield ""
    yield screen.strong("Commits")
    for commit in found.commits:
        age = duration(now - commit.committed_at)
        yield f"  {commit.commit[:12]} {one_line(commit.subject)} ({one_name(commit.author, 40)}, {age} ago)"
    yield ""
    yield screen.strong("Examination") + " (by the keep)"
    for line in _examination(found.examination):
        # The branch chooses the names of its tests: none begins a line of its own.
        yield f"  {harmless_lines(line.replace(chr(10), ' '))[0]}"
    if found.taint:
        yield ""
        yield screen.strong("The web") + " (by the keep)"
        yield from (screen.bad(f"  {one_line(line, 400)}") for line in found.taint)
    yield ""
    yield screen.strong("Changes") + " (COMMS.md stays main's, and is left out)"
    yield "\n".join(harmless_lines(found.stat)) or ("  not known" if found.branch.unseen else "  none")
    if not stat:
        yield ""
        yield from (_coloured(line, screen) for line in harmless_lines(found.diff))


def _examination(verdict: Verdict | None) -> Iterator[str]:
    """What ran, how it ended, and what the branch changes of the tests."""
    from infra.shared.verdicts.verdict import Counts

    if verdict is None:
        yield "none of what merging would make of main now"
        return
    yield f"{'passed' if verdict.passed else 'not passed'}: {verdict.words}"
    for run, counts in (("main's tests", verdict.mains), ("the branch's own", verdict.own)):
        if counts != Counts():
            yield f"{run}: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
    yield f"test files that ran: {len(verdict.files)}; not run: {', '.join(verdict.left_out) or 'none'}"
    listed = (
        ("needs your word", verdict.needs_word),
        ("tests removed", verdict.tests_removed),
        ("tests changed", verdict.tests_changed),
        ("tests added", verdict.tests_added),
        ("conftests, helpers and pytest's settings changed", verdict.settings_changed),
        ("fails with main's own code too", verdict.fails_on_main),
        ("passed only when run again, alone", verdict.again),
    )
    yield from (f"{what}: {name}" for what, names in listed for name in names)
    for id, text in verdict.failures.items():
        yield f"failed: {id}"
        yield from (f"    {line}" for line in text.split("\n"))


def _coloured(line: str, screen: Screen) -> str:
    if line.startswith(("diff ", "+++", "---")):
        return screen.strong(line)
    if line.startswith("@@"):
        return screen.mark(line)
    return screen.good(line) if line.startswith("+") else screen.bad(line) if line.startswith("-") else line


@command
@branch_argument
def examine(context: Context, screen: Screen, branch: str) -> int:
    """Have the keep examine a branch, merged into main. Waits for the verdict.

    The keep of a running agent does this, and pauses the agent meanwhile. Each request starts a new examination.
    """
    from host.repository.examine import LONGEST_SECONDS, examine_branch
    from host.repository.open import open_as_pm
    from host.repository.review import PASSED

    home = context.initialised()
    done = examine_branch(home, open_as_pm(context), branch, LONGEST_SECONDS)
    at = f"{branch}@{done.commit[:12]}"
    if done.status:
        words = f": {one_line(done.verdict.words, 500)}" if done.verdict else ""
        status = screen.good(done.status) if done.status == PASSED else screen.bad(done.status)
        screen.show(done, f"{at}  {status}{words}")
        screen.advise(f"'minifram review {branch}' shows all of it")
        return Exit.OK
    screen.show(done, f"asked   {at}")
    if not done.running:
        screen.advise("the agent is not running; it is examined at the next start: 'minifram up'")
        return Exit.OK
    screen.advise(f"no verdict yet; the request stays: 'minifram review {branch}' shows it")
    return Exit.OK if screen.schema else Exit.TRY_AGAIN


@command
@click.argument("branch", metavar="BRANCH@COMMIT", shell_complete=complete_branch)
@click.option("--unexamined", is_flag=True, help="Even when the keep has not examined it, or it did not pass.")
@click.option("--unvalidated", is_flag=True, hidden=True, help="The earlier name of --unexamined.")
def merge(context: Context, screen: Screen, branch: str, unexamined: bool, unvalidated: bool) -> None:
    """Merge the reviewed commit of a branch into main, by a merge commit of yours; main's COMMS.md stays as it is.

    'minifram review BRANCH' prints the whole command. A branch that has moved since is not merged. By merging you
    approve the changes that the verdict says need your approval. Prints how to undo it.
    """
    from host.repository.merge import merge_branch
    from host.repository.open import open_as_pm

    done = merge_branch(open_as_pm(context), branch, unexamined or unvalidated, context.option)
    screen.show(done, _merged(done, screen))
    if done.commit != done.main_before:
        screen.advise("a running agent takes it up after its current run, or at once: 'minifram restart'")


def _merged(done: Merged, screen: Screen) -> Iterator[str]:
    if done.commit == done.main_before:
        yield f"nothing to do: {done.branch}@{done.branch_commit[:12]} is already in main ({done.commit[:12]})"
        return
    yield f"merged  {done.branch}@{done.branch_commit[:12]} ({done.verdict}): main is now {done.commit}"
    yield from _changed(done, done.files, screen)
    yield f"undo:   {done.undo}"


def _changed(done: Merged | RolledBack, changes: tuple[str, ...], screen: Screen) -> Iterator[str]:
    yield from (f"  {harmless(change)}" for change in changes)
    if done.unseen:
        yield screen.bad(f"  what changed cannot be listed: {one_line(done.unseen, 200)}")


@command
@branch_argument
@click.option("--because", default="", metavar="TEXT", help="Why; the agent reads it.")
def reject(context: Context, screen: Screen, branch: str, because: str) -> None:
    """Remove a branch, keep its commit, and tell the agent by a directive. Prints how to undo it."""
    from host.repository.merge import reject_branch
    from host.repository.open import open_as_pm

    done = reject_branch(open_as_pm(context), branch, because)
    screen.show(
        done,
        (
            f"rejected  {branch}@{done.branch_commit[:12]}, kept as {done.kept_as}",
            f"told      the agent, in {done.directive_commit[:12]}",
            f"undo:     {done.undo}",
        ),
    )


@command
@click.argument("ref")
def rollback(context: Context, screen: Screen, ref: str) -> None:
    """Give main the content of an earlier version, as a new commit: history only grows, COMMS.md is kept.

    REF is a commit, a branch or a tag, optionally with ~N or ^N. Prints what changed, and how to undo it. The watcher
    does not fall back to the versions that you revoke, until main holds them again or you run 'minifram retry'.

    \b
    Examples:
      minifram rollback main~1
      minifram rollback 0123abcd
    """
    from host.repository.merge import roll_back
    from host.repository.open import open_as_pm

    done = roll_back(open_as_pm(context), ref, context.option)
    screen.show(done, _rolled_back(done, screen))
    if done.commit != done.main_before:
        screen.advise(
            "a running agent takes it up after its current run, within limits.make_way_seconds (see 'minifram "
            "config'), or at once: 'minifram restart'"
        )


def _rolled_back(done: RolledBack, screen: Screen) -> Iterator[str]:
    if done.commit == done.main_before:
        yield f"nothing to do: main ({done.commit[:12]}) already has the content of {done.target[:12]}"
        return
    yield f"rolled back  main is now {done.commit}, with the content of {done.target[:12]}"
    yield from _changed(done, done.changes, screen)
    yield f"undo:        {done.undo}"


@command
def retry(context: Context, screen: Screen) -> int:
    """Retry versions that failed and were pinned. Waits until the watcher has applied it.

    A version that fails to start is pinned: the watcher falls back to an older one, until main changes or you run this.
    Use it when the fault was not the version's. The watcher does not fall back to a version that you rolled back from
    or rejected until you run this, either. When there is neither, nothing changes. 'minifram status' shows the pins.

    The same by hand, from a clone: git push origin main:refs/minifram/retry
    """
    from host.agent.pins import STAND_INS, TAKEN_SECONDS, retry_pinned
    from host.repository.open import open_as_pm

    done = retry_pinned(context.initialised(), open_as_pm(context), TAKEN_SECONDS)
    screen.show(done, _retried(done, screen))
    if done.taken and done.level in STAND_INS:
        screen.progress(f"{done.level} makes way, main is retried now: 'minifram status' shows the result")
    elif done.asked and not done.running:
        screen.progress("the agent is not running; this is applied at the next start: 'minifram up'")
    elif done.asked and not done.taken:
        screen.progress(
            f"the watcher has not applied it within {TAKEN_SECONDS:g} s; the request stays: "
            f"'minifram status' shows what is pinned, 'minifram logs' what the watcher does"
        )
        return Exit.TRY_AGAIN
    return Exit.OK


def _retried(done: Retried, screen: Screen) -> Iterator[str]:
    from host.agent.pins import shown

    if not done.asked:
        yield "nothing is pinned, nothing was changed"
        return
    yield from (f"pinned  {pin}" for pin in shown(done.pins))
    for commit in done.taken_back:
        yield f"back    main@{commit[:12]}, which you revoked, may replace main again"
    yield (
        f"{screen.good('taken')}   all of these may be started again" if done.taken else "asked   they will be retried"
    )
