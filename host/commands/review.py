"""`minifram review`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from host.commands.options import Verb, complete_branch, context_of, json_option, screen_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from host.display import Screen
    from host.repository.review import Branch, Review
    from infra.shared.verdicts.verdict import Verdict


@click.command("review", cls=Verb)
@click.argument("branch", required=False, shell_complete=complete_branch)
@click.option("--stat", is_flag=True, help="Only which files change, not how.")
@json_option
@click.pass_context
def verb(ctx: click.Context, branch: str | None, stat: bool, as_json_: bool) -> None:
    """List the branches that await your decision, or show the commits, the changes and the examination of one.

    The keep examines what merging would make of main: it rehearses that version and runs the tests. The verdict says
    what ran and how it ended. The branch's own code runs within the tests, so it never says that a branch is safe.
    """
    from host.context import as_option
    from host.display import as_json, plain
    from host.repository import open as bare
    from host.repository import review

    context, screen = context_of(ctx), screen_of(ctx)
    git = bare.open_repository(context.initialised())
    option = as_option(context.agent)
    if branch is None:
        branches = review.awaiting(git)
        if as_json_:
            screen.result(as_json("review", {"branches": plain(branches)}))
            return
        for item in branches:
            _show_branch(item, screen, time.time())
        screen.progress(
            f"'minifram review{option} BRANCH' shows one; merge or reject it" if branches else "no branch awaits review"
        )
        return
    found = review.one(git, branch)
    if as_json_:
        screen.result(as_json("review", found._replace(diff="") if stat else found))
        return
    _show_review(found, stat, screen, time.time())
    name = found.branch.name
    at = f"{name}@{found.branch.commit[:12]}"
    if found.branch.verdict == review.NOT_EXAMINED:
        screen.progress(f"Not examined yet: minifram examine{option} {name}")
    screen.progress(f"Next: minifram merge{option} {at}   or   minifram reject{option} {name} --because '…'")


def _show_branch(branch: Branch, screen: Screen, now: float) -> None:
    from host.display import counted, duration, one_line, one_name

    verdict = screen.good(branch.verdict) if branch.verdict == "passed" else screen.bad(branch.verdict)
    behind = f", {branch.behind} behind" if branch.behind else ""
    screen.result(
        f"{screen.strong(one_name(branch.name, 200))} @ {branch.commit[:12]} · {counted(branch.ahead, 'commit')} ahead"
        f"{behind} · {counted(len(branch.files), 'file')} · {verdict}"
    )
    screen.result(
        f"    {one_line(branch.subject)} ({one_name(branch.author, 40)}, {duration(now - branch.committed_at)} ago)"
    )
    if branch.unseen:
        screen.result(screen.bad(f"    not all of it can be shown: {one_line(branch.unseen, 250)}"))


def _show_review(found: Review, stat: bool, screen: Screen, now: float) -> None:
    from host.display import duration, harmless_lines, one_line, one_name

    _show_branch(found.branch, screen, now)
    if not found.base and not found.branch.unseen:
        screen.result(screen.bad("    it shares no history with main"))
    screen.result()
    screen.result(screen.strong("Commits"))
    for commit in found.commits:
        age = duration(now - commit.committed_at)
        screen.result(f"  {commit.commit[:12]} {one_line(commit.subject)} ({one_name(commit.author, 40)}, {age} ago)")
    screen.result()
    screen.result(screen.strong("Examination") + " (by the keep)")
    for line in _examination(found.examination):
        # The branch chooses the names of its tests: none begins a line of its own.
        screen.result(f"  {harmless_lines(line.replace(chr(10), ' '))[0]}")
    screen.result()
    screen.result(screen.strong("Changes") + " (COMMS.md stays main's, and is left out)")
    screen.result("\n".join(harmless_lines(found.stat)) or ("  not known" if found.branch.unseen else "  none"))
    if not stat:
        screen.result()
        for line in harmless_lines(found.diff):
            screen.result(_coloured(line, screen))


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
    for what, names in listed:
        for name in names:
            yield f"{what}: {name}"
    for id, text in verdict.failures.items():
        yield f"failed: {id}"
        yield from (f"    {line}" for line in text.split("\n"))


def _coloured(line: str, screen: Screen) -> str:
    if line.startswith(("diff ", "+++", "---")):
        return screen.strong(line)
    if line.startswith("@@"):
        return screen.mark(line)
    return screen.good(line) if line.startswith("+") else screen.bad(line) if line.startswith("-") else line
