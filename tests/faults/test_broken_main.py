"""A main that cannot live, in each way that a version can be bad, and a clone of main's that is damaged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.code import version_of
from infra.keep.services.processes import is_alive
from infra.shared.repository.git import Git
from tests.faults.grown import REAL, MakeAgent, behave, grown, kill_runner, lead, serves_at, shown
from tests.keep.supervision.agents import within

pytestmark = pytest.mark.heavy
SERVES = 'say("BOOTSTRAPPING"); say("SUCCESS"); '
WAYS = {
    "crashes after its probation": (SERVES + "time.sleep(1.0); os.abort()", "SIGABRT", "SIGABRT"),
    "forges another's SUCCESS": (
        'say("BOOTSTRAPPING", "0" * 32); say("SUCCESS", "0" * 32); time.sleep(600)',
        "minifram retry",
        "did not write SUCCESS within 4 s",
    ),
}


@pytest.mark.fault("F03", "F04", "F27", "F29", "F51")
@pytest.mark.attack("S20")
@pytest.mark.parametrize("way", WAYS)
def test_main_dies_again_and_again(make_agent: MakeAgent, way: str) -> None:
    """Fault: every start of main's version ends; expected: it is pinned after a few, the last good main serves, and
    page and status tell why, main's ref as the PM left it."""
    behaviour, why, briefly = WAYS[way]
    agent, good = grown(make_agent)
    bad = behave(agent, behaviour)
    serves_at(agent, "last good", good)
    comms = agent.told("is pinned, last good is active")
    assert why in comms
    seen = shown(agent)
    assert (seen.level, [pin.branch for pin in seen.pins]) == ("last good", ["main"])
    assert [pin.version for pin in agent.state().pins] == [version_of(agent.git, bad).id]
    assert briefly in seen.pins[0].why
    assert Git(agent.places.remote).ok("merge-base", "--is-ancestor", bad, "main")


@pytest.mark.fault("F83")
def test_main_without_its_prompt(make_agent: MakeAgent) -> None:
    """Fault: SYSTEM.md is missing, with the project's own runner; expected: the last good main serves, and the PM reads
    that the prompt is what is wrong."""
    agent, good = grown(make_agent, REAL, body=True)
    (agent.clone / "SYSTEM.md").unlink()
    lead(agent, "spoiled prompt")
    serves_at(agent, "last good", good)
    assert "SYSTEM.md" in agent.told("is pinned, last good is active")
    assert "SYSTEM.md" in shown(agent).pins[0].why


@pytest.mark.fault("F83")
def test_main_falls_silent_while_it_serves(make_agent: MakeAgent) -> None:
    """Fault: after SUCCESS the main loop hangs, its process alive; expected: it is ended when its promise breaks, main
    is tried again, and the PM reads why."""
    agent, _ = grown(make_agent)
    bad = behave(agent, f"{SERVES}\nbeat(1.5)\ntime.sleep(600)")
    first = serves_at(agent, "main", bad)
    agent.serving(but=first.active.boot_id, seconds=60.0)
    assert not is_alive(first.active.pid)
    assert "it was last heard of" in agent.told("main failed (1 in a row)")
    assert any("it had promised" in trouble.text for trouble in shown(agent).troubles)


def _corrupt_objects(clone: Path) -> None:
    for path in (clone / ".git/objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"\0" * path.stat().st_size)


def _truncate_index(clone: Path) -> None:
    os.truncate(clone / ".git/index", 20)


# With the first git can still make out the clone, with the second there is none.
@pytest.mark.fault("F83")
@pytest.mark.parametrize("damage", [_truncate_index, _corrupt_objects])
def test_mains_clone_is_damaged(make_agent: MakeAgent, damage: Callable[[Path], None]) -> None:
    """Fault: objects, refs, index or settings of main's clone are corrupt or gone; expected: main serves from its
    clone, or from one made anew; no version is blamed, and what was there is kept."""
    agent, _ = grown(make_agent)
    clone = Path(agent.places.main_checkout)
    (clone / "unfinished").write_text("half a thought")
    damage(clone)
    before = kill_runner(agent)
    state = agent.serving(but=before.active.boot_id)
    assert (state.active.level, state.active.version, state.pins) == ("main", before.active.version, ())
    (kept,) = clone.parent.glob("*/unfinished")
    assert kept.read_text() == "half a thought"
    assert Git(str(clone))("rev-parse", "HEAD")


@pytest.mark.fault("F35")
def test_the_shared_repository_is_damaged(make_agent: MakeAgent) -> None:
    """Fault: main's ref in the shared repository is full of zeroes when main is to be led; expected: no version is
    blamed, and the main that was seen last serves."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    ref = Path(agent.places.remote, "refs/heads/main")
    right = within(30.0, ref.read_text, "main's ref")
    ref.write_text("\0" * 41)
    kill_runner(agent)
    state = agent.serving(but=first.active.boot_id)
    assert agent.watcher
    assert agent.watcher.poll() is None
    assert not is_alive(first.active.pid)
    assert (state.strikes, state.active.level, state.active.version) == ((), "main", first.active.version)
    ref.write_text(right)


@pytest.mark.fault("F35")
def test_mains_commit_is_dead_in_the_shared_repository(make_agent: MakeAgent) -> None:
    """Fault: the object of main's commit is corrupt in the shared repository when main is to be led;
    expected: main serves from its clone, and status tells how the agent stands, what is wrong and what mends it."""
    agent, _ = grown(make_agent)
    agent.git("pull", "-q", "--rebase", "origin", "main")
    main = agent.git("rev-parse", "HEAD")
    dead = Path(agent.places.remote, "objects", main[:2], main[2:])
    dead.chmod(0o644)
    dead.write_bytes(b"garbage")
    before = kill_runner(agent)
    after = agent.serving(but=before.active.boot_id)
    assert (after.active.level, after.pins) == ("main", ())
    seen = shown(agent)
    assert (seen.phase, seen.branch, seen.main) == ("running", "main", main)
    told = next(trouble.text for trouble in seen.troubles if f"main names commit {main[:12]}" in trouble.text)
    dead.unlink(missing_ok=True)
    how = told.partition("has it: ")[2].replace("CLONE", str(agent.clone))
    subprocess.run(how, shell=True, check=True, capture_output=True)
    assert shown(agent).troubles[0].text != told
