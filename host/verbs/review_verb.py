"""`minifram review`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from host.options import Verb, caller_of, complete_branch, json_option, screen_of

if TYPE_CHECKING:
    from host.display import Screen
    from host.review import Branch, Review


@click.command("review", cls=Verb)
@click.argument("branch", required=False, shell_complete=complete_branch)
@click.option("--stat", is_flag=True, help="Only which files change, not how.")
@json_option
@click.pass_context
def verb(ctx: click.Context, branch: str | None, stat: bool, as_json_: bool) -> None:
    """List the branches that await your decision, or show the commits, changes and test evidence of one.

    Evidence is what the agent's runner reported about exactly this commit. Read the changes: they are the agent's.
    """
    from host import bare, review
    from host.caller import as_option
    from host.display import as_json, plain

    caller, screen = caller_of(ctx), screen_of(ctx)
    git = bare.open_repository(caller.initialised())
    option = as_option(caller.agent)
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
    screen.progress(f"Next: minifram merge{option} {name}   or   minifram reject{option} {name} --because '…'")


def _show_branch(branch: Branch, screen: Screen, now: float) -> None:
    from host.display import counted, duration, one_line, one_name

    verdict = screen.good(branch.verdict) if branch.verdict == "validated" else screen.bad(branch.verdict)
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
    screen.result(screen.strong("Evidence") + " (the agent's own word)")
    for report in found.evidence.reports:
        screen.result("\n".join(f"  {line}" for line in harmless_lines(report)))
    if not found.evidence.reports:
        screen.result(f"  none for {found.branch.commit[:12]}")
    screen.result()
    screen.result(screen.strong("Changes") + " (COMMS.md stays main's, and is left out)")
    screen.result("\n".join(harmless_lines(found.stat)) or ("  not known" if found.branch.unseen else "  none"))
    if not stat:
        screen.result()
        for line in harmless_lines(found.diff):
            screen.result(_coloured(line, screen))


def _coloured(line: str, screen: Screen) -> str:
    if line.startswith(("diff ", "+++", "---")):
        return screen.strong(line)
    if line.startswith("@@"):
        return screen.mark(line)
    return screen.good(line) if line.startswith("+") else screen.bad(line) if line.startswith("-") else line
