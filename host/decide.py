"""What the PM decides about branches and versions: merge, reject, rollback, retry. History only grows, and each act
prints how to undo it.

A branch is judged at one commit: when it moves meanwhile, nothing happens to what the PM has not seen."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from host.cli import command
from host.errors import conflict, denied, failure, not_found, usage
from host.home import Context
from host.repository import main_commit, open_as_pm
from host.review import CONFLICT, FREE, NEEDS_WORD, PASSED, UNSEALED, branch_commit, examination, is_pms_own
from host.running import PROCESS, is_running, known_state, sandbox_of
from host.screen import Say, Shown, harmless, one_line
from host.talk import add_directive
from infra.keep.repository.bare_tip import KNOWN_GOOD, REJECTED, RETRY_REF, BareTip, rollback_commit, update_refs
from infra.keep.watcher_file import Level, State, Strikes
from infra.shared.branches import MAIN
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.merge import MergeConflict, merge_commit
from infra.shared.repository.tip import advance, file_at

PINS_SHOWN = 5
STAND_INS = (Level.GOOD, Level.SAFE)
"""What runs where main cannot."""
TAKEN_UP = "a running agent takes it up after its current run, or at once: 'minifram restart'"
_SHORTENED = re.compile(r"[0-9a-f]{7,40}")
_REF = re.compile(rf"((?P<main>{MAIN}|HEAD)|(?P<id>[0-9a-f]{{4,40}}))(?P<steps>([~^][0-9]{{0,5}}){{0,20}})")


@command
@click.argument("branch", metavar="BRANCH@COMMIT")
@click.option("--unexamined", is_flag=True, help="Even when the keep has not examined it, or it did not pass.")
def merge(context: Context, say: Say, branch: str, unexamined: bool) -> Shown:
    """Merge the reviewed commit of a branch into main, by a merge commit of yours; main's COMMS.md stays as it is.

    'minifram review BRANCH' prints the whole command. A branch that has moved since is not merged. By merging you
    approve the changes that the verdict says need your approval. Prints how to undo it.
    """
    git, (name, _, reviewed) = open_as_pm(context), branch.rpartition("@")
    if not _SHORTENED.fullmatch(reviewed) or not name:
        raise usage(
            f"say which commit of {branch} you have reviewed, so that no other is merged: "
            f"'minifram review {branch}' ends with the whole command"
        )
    commit = branch_commit(git, name)
    if not commit.startswith(reviewed):
        raise conflict(
            f"{name} is at {commit[:12]} now, not at {reviewed[:12]}; nothing was merged. "
            f"Look what it holds now: 'minifram review {name}'"
        )
    value = {"branch": name, "branch_commit": commit, "verdict": "", "files": (), "undo": ""}
    seen_last, at = main_commit(git), f"{name}@{commit[:12]}"
    if git.ok("merge-base", "--is-ancestor", commit, seen_last):
        value |= {"commit": seen_last, "main_before": seen_last}
        return Shown(value, f"nothing to do: {at} is already in main ({seen_last[:12]})")
    status, verdict = examination(git, seen_last, commit)
    may = status in (PASSED, NEEDS_WORD, FREE, CONFLICT)
    if not may and not unexamined and not is_pms_own(git, seen_last, commit):
        why = f": {verdict.why}" if verdict else ""
        raise denied(
            f"{at} is {status}{why[:500]}. 'minifram review {name} --examine' has the keep examine it, "
            f"'minifram review {name}' shows it; if you want it anyway, add --unexamined"
        )
    message = f"Merge branch {name} at {commit[:12]}\n\nDecided by the PM."
    try:
        moved = advance(BareTip(git), lambda seen: merge_commit(git, seen, commit, message))
    except MergeConflict as found_both:
        both = ", ".join(found_both.files)
        raise conflict(
            f"{name} and main both changed {both}; main is as it was. Ask the agent to merge main into {name} "
            f"and push it, or do it in a clone: git clone {shlex.quote(git.directory)}"
        ) from None
    done, lines = _done(context, git, moved, "files", "--name-only")
    head = f"merged  {at} ({status}): main is now {moved}"
    advice = f"{TAKEN_UP}\n{UNSEALED}" if sandbox_of(context.home) == PROCESS else TAKEN_UP
    return Shown(value | done | {"verdict": status}, [head, *lines], advice)


def _done(context: Context, git: Git, commit: str, name: str, form: str) -> tuple[dict[str, object], list[str]]:
    """Of a commit that main moved to: what was before, which files differ, how to undo it; as a value, and as lines."""
    before = git("rev-parse", f"{commit}^1")
    listed = git("diff", "--no-renames", form, before, commit).split("\n")
    changes = [line.replace("\t", " ") for line in listed if line]
    undo = f"minifram rollback {before}{context.agent_words}"
    value: dict[str, object] = {"commit": commit, "main_before": before, name: changes, "undo": undo}
    return value, [*(f"  {harmless(change)}" for change in changes), f"undo:   {undo}"]


@command
@click.argument("branch")
@click.option("--because", default="", metavar="TEXT", help="Why; the agent reads it.")
def reject(context: Context, say: Say, branch: str, because: str) -> Shown:
    """Remove a branch, keep its commit, and tell the agent by a directive. Prints how to undo it."""
    git = open_as_pm(context)
    commit = branch_commit(git, branch)
    kept_as = f"{REJECTED}/{branch}/{commit[:12]}"
    try:
        update_refs(git, f"update {kept_as} {commit}", f"delete refs/heads/{branch} {commit}")
    except GitError as error:
        if error.status is None or resolve_commit(git, f"refs/heads/{branch}") == commit:
            raise
        raise conflict(f"{branch} has moved; nothing was rejected: see 'minifram review {branch}'") from None
    _not_good(git, f"--contains={commit}")
    reason = f": {because.strip()}" if because.strip() else "."
    words = (
        f"Branch {branch} at {commit[:12]} is rejected{reason}\nDo not merge it or push it again as it is; "
        f"remove its clone. The commit is kept as {kept_as}."
    )
    undo = f"git -C {shlex.quote(git.directory)} update-ref refs/heads/{branch} {commit}"
    directive = add_directive(git, words).commit
    value = {"branch": branch, "branch_commit": commit, "kept_as": kept_as, "directive_commit": directive, "undo": undo}
    lines = (
        f"rejected  {branch}@{commit[:12]}, kept as {kept_as}",
        f"told      the agent, in {directive[:12]}",
        f"undo:     {undo}",
    )
    return Shown(value, lines)


@command
@click.argument("ref")
def rollback(context: Context, say: Say, ref: str) -> Shown:
    """Give main the content of an earlier version, as a new commit: history only grows, COMMS.md is kept.

    REF is a commit's id, or main, optionally with ~N or ^N. Prints what changed, and how to undo it. The watcher does
    not fall back to the versions that you take back, until they have served well again.

    \b
    Examples:
      minifram rollback main~1
      minifram rollback 0123abcd
    """
    git = open_as_pm(context)
    # Once: `main~1` must not come to mean another commit when a race is lost.
    target = named_commit(git, ref)
    if target is None:
        raise not_found(
            f"{ref!r} names no version, or several; give a commit's id, or main~N: "
            f"'git -C {shlex.quote(git.directory)} log --oneline main' lists them"
        )
    if file_at(git, target, "infra/runner.py") is None:
        raise denied(
            f"{ref} ({target[:12]}) has no infra/runner.py, so it is not a version of the agent and cannot be started. "
            "Name a commit of main's history"
        )
    main = main_commit(git)
    value = {"ref": ref, "target": target, "commit": main, "main_before": main, "changes": (), "undo": ""}
    if not changes_beyond_page(git, main, target):
        return Shown(value, f"nothing to do: main ({main[:12]}) already has the content of {target[:12]}")
    message = f"Roll back to {target[:12]}\n\nThe tree of {ref}; COMMS.md is kept. Decided by the PM."
    commit = advance(BareTip(git), lambda seen: rollback_commit(git, seen, target, message))
    _not_good(git, f"--no-merged={target}")
    done, lines = _done(context, git, commit, "changes", "--name-status")
    head = f"rolled back: main is now {commit}, with the content of {target[:12]}"
    return Shown(value | done, [head, *lines], TAKEN_UP)


def _not_good(git: Git, which: str) -> None:
    """Versions of main that the PM takes back do not stand in for it. Raises GitError."""
    refs = git("for-each-ref", "--format=%(refname)", which, KNOWN_GOOD).split()
    if refs:
        update_refs(git, *(f"delete {ref}" for ref in refs))


def named_commit(git: Git, ref: str) -> str | None:
    """The commit that `ref` names: an id, also shortened, or main (HEAD in a clone), and the steps back from it.

    No other name counts: the agent chooses those, and could call a branch like the commit that the PM returns to."""
    found = _REF.fullmatch(ref)
    if found is None:
        return None
    names = [f"refs/heads/{MAIN}"] if found["main"] else git("rev-parse", f"--disambiguate={found['id']}").split()
    commits = {commit for name in names if (commit := resolve_commit(git, f"{name}{found['steps']}"))}
    return commits.pop() if len(commits) == 1 else None


@command
def retry(context: Context, say: Say) -> Shown:
    """Retry versions that failed and were pinned.

    A version that fails to start is pinned: the watcher falls back to an older one, until main changes or you run this.
    Use it when the fault was not the version's. When there is none, nothing changes. 'minifram status' shows the pins.

    The same by hand, from a clone: git push origin main:refs/minifram/retry
    """
    home, git = context.initialised(), open_as_pm(context)
    try:
        state = known_state(home) or State()
    except ValueError as error:
        raise failure(f"{home.places.watcher_state}: {error}; 'minifram restart' begins a new one") from None
    found, running = state.pins[::-1], is_running(home)
    value = {"agent": home.agent, "pins": found, "running": running}
    if not found:
        return Shown(value | {"asked": False}, "nothing is pinned, nothing was changed")
    # The watcher looks for the ref's own file: one that somebody packed is taken away first.
    update_refs(git, f"delete {RETRY_REF}")
    update_refs(git, f"update {RETRY_REF} {main_commit(git)}")
    lines = [f"pinned  {pin}" for pin in shown(found)]
    when = "within seconds: 'minifram status' shows it" if running else "at the next start: 'minifram up'"
    return Shown(value | {"asked": True}, [*lines, f"asked   the watcher takes it {when}"])


def pin_of_main(state: State) -> Strikes | None:
    """That of what main held when the watcher last looked; None when it is not pinned."""
    return next((pin for pin in state.pins if (pin.branch, pin.version) == (MAIN, state.main.id)), None)


def shown(found: Sequence[Strikes]) -> Iterator[str]:
    """A line for each of the newest pins, and one for how many more there are."""
    for pin in found[:PINS_SHOWN]:
        version = f"{one_line(pin.branch, 60)}@{one_line(pin.commit[:12])}"
        yield f"{version} since {one_line(pin.at, 24)}: {one_line(pin.why, 120)}"
    if len(found) > PINS_SHOWN:
        yield f"and {len(found) - PINS_SHOWN} more, see 'minifram status --json'"


def trouble_with_main(state: State, running: bool) -> str:
    """Why main itself does not run, and what to do; empty when it does."""
    level = state.active.level
    stands_in = running and level in STAND_INS
    pin = pin_of_main(state)
    if pin is None:
        is_safe = stands_in and level is Level.SAFE
        return (
            f"{level.value} is active, though main is not pinned: run 'minifram restart' to try main" if is_safe else ""
        )
    last_good = next((good.commit for good in state.goods if not state.pin_of(good.id)), "")
    following = Level.GOOD if last_good else Level.SAFE
    active = f"{level.value} is active" if stands_in else f"{following.value} is next"
    back = f"'minifram rollback {last_good[:12]}' (the last known-good one), " if last_good else ""
    return (
        f"main at {pin.commit[:12]} is pinned since {pin.at} because {one_line(pin.why, 160)}; {active} instead. "
        f"Push a fixed version, {back}or retry it: 'minifram retry'"
    )
