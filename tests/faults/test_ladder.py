"""A main that cannot live, with real processes and real git: who leads instead, what the PM reads, and the way back."""

from __future__ import annotations

import os
import signal

import pytest

from infra.keep.code import version_of
from infra.keep.watcher_file import Outcome
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.faults.grown import MakeAgent, behave, grown, serves_at
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
SETTINGS = "timing: {rehearse: false, quick: true, grace_seconds: 1, boot_seconds: 1.5, probation_seconds: 0.5}\n"


def push(agent: Agent, words: str, behaviour: str) -> str:
    """Another version of main, by the PM; gives its commit."""
    (agent.clone / "infra/cell").mkdir(exist_ok=True)
    (agent.clone / "infra/cell/version").write_text(words)
    agent.commit(behaviour)
    return agent.push_main()


def led(agent: Agent) -> int:
    """How often main's own version was launched."""
    return agent.log().count('"runner_level": "main"')


def test_a_pinned_main_stays_pinned_until_the_pm_asks_or_mends_it(make_agent: MakeAgent) -> None:
    """Neither the watcher's death nor reports on main, which change no version, bring it back."""
    agent, good = grown(make_agent, SETTINGS)
    behave(agent, "raise SystemExit(3)")
    serves_at(agent, "last good", good)
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    first, failures = agent.state().active.boot_id, led(agent)
    agent.start()
    within(
        30.0,
        lambda: agent.state().active.boot_id not in ("", first) and serves_at(agent, "last good", good),
        "a fresh start",
    )
    assert led(agent) == failures, "a pinned version was led again"
    Git(agent.places.remote)("update-ref", "refs/minifram/retry", "refs/heads/main")
    within(30.0, lambda: not agent.state().pins, "no pins")
    agent.ask(SignalName.BOOTSTRAP, "main")
    within(30.0, lambda: led(agent) > failures, "another try")
    serves_at(agent, "last good", good)
    assert Git(agent.places.remote)("for-each-ref", "refs/minifram/retry") == ""
    mended = behave(agent, "serve()")
    assert serves_at(agent, "main").active.commit == mended


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
    unwanted = push(agent, "two", "serve()")
    state = agent.serving(but=first.active.boot_id)
    assert state.active.version == version_of(agent.git, unwanted).id
    assert (state.strikes, state.boots[0].outcome, state.make_way_by) == ((), Outcome.LEFT, None)
    assert "did not make way for main, now at" in agent.told("was ended, main is active")
    within(30.0, lambda: len(agent.state().goods) == 2, "two good versions")
    agent.git("revert", "--no-edit", unwanted)
    agent.push_main()
    within(30.0, lambda: agent.state().goods == (good,), "the one that was taken back gone")
    push(agent, "three", "import no_such_module")
    assert serves_at(agent, "last good").active.version == good.id
    assert Git(agent.places.remote)("for-each-ref", "--format=%(objectname)", "refs/minifram/good") == good.commit


@pytest.mark.fault("F38", "F52")
def test_a_newborn_that_cannot_live_is_led_in_safe_mode(make_agent: MakeAgent) -> None:
    """Nothing was ever good: the image's own runner serves, on the shared main, and the PM reads why."""
    agent = make_agent("import no_such_module", SETTINGS.replace("quick: true, ", ""))  # this runner asks the doors
    agent.start()
    state = serves_at(agent, "safe mode")
    assert state.main.id == state.pins[0].version
    agent.told("is pinned, safe mode is active")
    assert "no_such_module" in agent.comms()
