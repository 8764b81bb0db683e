"""A main that cannot live, in each way that a version can be bad; what it finds damaged; and who leads instead."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from infra.keep.code import version_of
from infra.keep.services.processes import is_alive
from infra.keep.watcher_file import Outcome, Strikes
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.grown import REAL, MakeAgent, behave, change, grown, kill_runner, shown
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
SERVES = 'say("BOOTSTRAPPING"); say("SUCCESS"); '
WAYS = (
    (SERVES + "time.sleep(1.0); os.abort()", "SIGABRT"),
    ('say("BOOTSTRAPPING", "0" * 32); say("SUCCESS", "0" * 32); time.sleep(600)', "did not write SUCCESS within 4 s"),
)
"""It crashes after its probation, or forges another's SUCCESS; and why that is pinned."""


def led(agent: Agent) -> int:
    """How often main's own version was launched."""
    return agent.log().count('"runner_level": "main"')


def pinned(agent: Agent, version: str) -> Strikes:
    """Main's, once this version is pinned; the last good one serves then."""
    within(40.0, lambda: version in [pin.version for pin in agent.state().pins], "a pin")
    agent.serving(level="last good")
    seen = shown(agent)
    assert seen.level == "last good"
    return next(pin for pin in seen.pins if (pin.version, pin.branch) == (version, "main"))


@pytest.mark.fault("F03", "F04", "F27", "F29", "F51")
@pytest.mark.attack("S20")
def test_main_dies_again_and_again_until_the_pm_mends_it(make_agent: MakeAgent) -> None:
    """Fault: every start of main's version ends; expected: it is pinned after a few, the last good main serves, and
    page and status tell why, main's ref as the PM left it. Neither the watcher's death nor reports on main, which
    change no version, bring it back; the PM's word and another version do."""
    agent, good = grown(make_agent)
    for behaviour, why in WAYS:
        bad = behave(agent, behaviour)
        assert why in pinned(agent, version_of(agent.git, bad).id).why
        assert why in agent.told(why)
        assert "is pinned, last good is active" in agent.told("minifram retry")
        assert Git(agent.places.remote).ok("merge-base", "--is-ancestor", bad, "main")
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    first, launches = agent.state().active.boot_id, led(agent)
    agent.start()
    within(30.0, lambda: agent.state().active.boot_id not in ("", first), "a fresh start")
    agent.serving(level="last good", commit=good)
    assert led(agent) == launches, "a pinned version was led again"
    Git(agent.places.remote)("update-ref", "refs/minifram/retry", "refs/heads/main")
    within(30.0, lambda: not agent.state().pins, "no pins")
    agent.ask(SignalName.BOOTSTRAP, "main")
    within(30.0, lambda: led(agent) > launches, "another try")
    agent.serving(level="last good", commit=good)
    assert Git(agent.places.remote)("for-each-ref", "refs/minifram/retry") == ""
    mended = behave(agent, "serve()")
    assert agent.serving(level="main").active.commit == mended


@pytest.mark.fault("F83")
def test_main_without_its_prompt(make_agent: MakeAgent) -> None:
    """Fault: SYSTEM.md is missing, with the project's own runner; expected: the last good main serves, and the PM reads
    that the prompt is what is wrong."""
    agent, good = grown(make_agent, REAL, body=True)
    (agent.clone / "SYSTEM.md").unlink()
    behave(agent, "serve()")
    agent.serving(level="last good", commit=good)
    assert "SYSTEM.md" in agent.told("is pinned, last good is active")
    assert "SYSTEM.md" in shown(agent).pins[0].why


@pytest.mark.fault("F55", "F83")
def test_mains_clone_is_damaged(make_agent: MakeAgent) -> None:
    """Fault: main's clone has another runner, and then corrupt objects; expected: main serves, as what runs is its
    commit, from that clone, and then from one made anew; no version is blamed, and what was there is kept. Other
    damages: `test_repositories`."""
    agent, _ = grown(make_agent)
    clone = Path(agent.places.main_checkout)
    (clone / "unfinished").write_text("half a thought")
    (clone / "infra/runner.py").write_text("raise SystemExit(9)")
    first = kill_runner(agent)
    agent.serving(but=first.active.boot_id)
    assert (clone / "unfinished").exists()
    for path in (clone / ".git/objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"\0" * path.stat().st_size)
    before = kill_runner(agent)
    state = agent.serving(but=before.active.boot_id)
    assert (state.active.level, state.active.version, state.pins) == ("main", before.active.version, ())
    (kept,) = clone.parent.glob("*/unfinished")
    assert kept.read_text() == "half a thought"
    assert Git(str(clone))("rev-parse", "HEAD")


@pytest.mark.fault("F35")
def test_main_is_damaged_in_the_shared_repository(make_agent: MakeAgent) -> None:
    """Fault: main's ref in the shared repository is full of zeroes when main is to be led, and then the object of its
    commit is corrupt; expected: main serves from its clone, no version is blamed, and status tells how the agent
    stands, what is wrong and what mends it."""
    agent, _ = grown(make_agent)
    first = agent.serving()
    ref = Path(agent.places.remote, "refs/heads/main")
    right = within(30.0, ref.read_text, "main's ref")
    ref.write_text("\0" * 41)
    kill_runner(agent)
    state = agent.serving(but=first.active.boot_id)
    assert not is_alive(first.active.pid)
    assert (state.strikes, state.active.level, state.active.version) == ((), "main", first.active.version)
    ref.write_text(right)
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


SETTINGS = "timing: {rehearse: false, quick: true, grace_seconds: 1, boot_seconds: 1.5, probation_seconds: 0.5}\n"


@pytest.mark.fault("F01", "F03", "F12")
def test_a_main_that_has_lived_is_not_pinned_for_being_killed(make_agent: MakeAgent) -> None:
    """Whatever signal ends it from outside, also one that has no name, it is started again each time, and nothing else
    leads in its place. The watcher lives through masses of its own."""
    agent, _ = grown(make_agent, SETTINGS)
    assert agent.watcher
    for _ in range(500):
        for each in (signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD):
            agent.watcher.send_signal(each)
    unnamed = int(signal.SIGRTMIN) + 1
    for number, words in ((signal.SIGKILL, "SIGKILL"), (signal.SIGKILL, "SIGKILL"), (unnamed, f"signal {unnamed}")):
        before = agent.state()
        assert before.strikes == ()
        os.kill(before.active.pid, number)
        state = agent.serving(but=before.active.boot_id)
        assert (state.active.version, state.boots[-2].outcome) == (before.active.version, "died")
        assert f"died after SUCCESS: {words}" in state.boots[-2].detail
    assert state.pins == ()


def test_a_main_of_the_pm_s_leads_at_once_and_one_that_was_reverted_no_more(make_agent: MakeAgent) -> None:
    """These runners never look at main: each has its time, is ended, and the PM reads so; nobody is blamed. What was
    reverted is no good version: when the next main cannot live, the one before it leads."""
    agent = make_agent(settings=SETTINGS.replace("timing: {", "timing: {make_way_seconds: 0.5, "))
    agent.start()
    first = agent.serving()
    good = within(30.0, lambda: agent.state().goods, "a good version")[0]
    unwanted = change(agent, "serve()")
    state = agent.serving(but=first.active.boot_id)
    assert state.active.version == version_of(agent.git, unwanted).id
    assert (state.strikes, state.boots[0].outcome, state.make_way_by) == ((), Outcome.LEFT, None)
    assert "did not make way for main, now at" in agent.told("was ended, main is active")
    within(30.0, lambda: len(agent.state().goods) == 2, "two good versions")
    agent.git("revert", "--no-edit", unwanted)
    agent.push_main()
    within(30.0, lambda: agent.state().goods == (good,), "the one that was taken back gone")
    change(agent, "import no_such_module")
    assert agent.serving(level="last good").active.version == good.id
    assert Git(agent.places.remote)("for-each-ref", "--format=%(objectname)", "refs/minifram/good") == good.commit


@pytest.mark.fault("F38", "F52")
def test_a_newborn_that_cannot_live_is_led_in_safe_mode(make_agent: MakeAgent) -> None:
    """Nothing was ever good: the image's own runner serves, on the shared main, and the PM reads why."""
    agent = make_agent("import no_such_module", SETTINGS.replace("quick: true, ", ""))  # this runner asks the doors
    agent.start()
    state = agent.serving(level="safe mode")
    assert state.main.id == state.pins[0].version
    agent.told("is pinned, safe mode is active")
    assert "no_such_module" in agent.comms()
