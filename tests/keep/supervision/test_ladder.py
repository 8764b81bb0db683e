"""A main that cannot live, with real processes and real git: who leads instead, what the PM reads, and the way back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from infra.keep.code import version_of
from infra.keep.watcher_file import Outcome, State
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from tests.keep.supervision.agents import Agent, within

pytestmark = pytest.mark.heavy
MakeAgent = Callable[..., Agent]
SETTINGS = "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 1.5, probation_seconds: 0.5}\n"
GOOD = "serve()"
WAYS = {
    "cannot be imported": "import no_such_module",
    "ends at once with status 0": 'say("BOOTSTRAPPING")',
    "hangs": "time.sleep(600)",
    "says SUCCESS and dies": 'say("BOOTSTRAPPING"); say("SUCCESS"); time.sleep(0.1); os.kill(os.getpid(), 9)',
    "forges another's SUCCESS": 'say("BOOTSTRAPPING", "0" * 32); say("SUCCESS", "0" * 32); time.sleep(600)',
}
LONG = ("ends at once with status 0", "hangs")
"""Not healthy in time, as the one that forges another's SUCCESS."""


def level(agent: Agent, name: str, commit: str = "") -> State:
    """The state once this level serves."""

    def look() -> State | None:
        state = agent.state()
        return (
            state
            if (state.phase, state.active.level) == ("running", name) and commit in ("", state.active.commit)
            else None
        )

    return within(30.0, look, f"{name} serving; now {agent.state()}")


def grown(make_agent: MakeAgent) -> tuple[Agent, str]:
    """An agent whose first main has shown that it can live; and that main."""
    agent = make_agent(GOOD, SETTINGS)
    agent.start()
    agent.serving()
    good = within(30.0, lambda: agent.state().goods, "a good version")
    return agent, good[0].commit


@pytest.mark.fault("F04", "F27", "F29")
@pytest.mark.attack("S20")
@pytest.mark.parametrize("way", [pytest.param(way, marks=pytest.mark.long) if way in LONG else way for way in WAYS])
def test_the_last_good_main_leads_when_main_cannot_live(make_agent: MakeAgent, way: str) -> None:
    """Whatever is wrong with it: it is tried, pinned, and the PM reads why; main itself stays as the PM left it, until
    the PM mends it, and then it leads at once."""
    agent, good = grown(make_agent)
    (agent.clone / "infra/runner.py").write_text((agent.clone / "infra/runner.py").read_text() + f"# {way}\n")
    agent.commit(WAYS[way])
    bad = agent.push_main()
    agent.ask(SignalName.BOOTSTRAP, "main")
    state = level(agent, "last good", good)
    assert [(pin.branch, pin.version) for pin in state.pins] == [("main", version_of(agent.git, bad).id)]
    assert "minifram retry" in agent.told(f"main@{state.pins[0].commit[:12]} is pinned, last good is active")
    assert agent.git("ls-remote", "origin", "main").split()[0] != good
    assert agent.git("merge-base", "--is-ancestor", bad, "origin/main") == ""

    agent.git("pull", "-q", "--rebase", "origin", "main")
    (agent.clone / "infra/runner.py").write_text((agent.clone / "infra/runner.py").read_text() + "# mended\n")
    agent.commit(GOOD)
    mended = agent.push_main()
    agent.ask(SignalName.BOOTSTRAP, "main")
    assert level(agent, "main").active.commit == mended


def test_a_pinned_main_stays_pinned_over_the_watcher_s_death_until_the_pm_asks(make_agent: MakeAgent) -> None:
    """Nor do reports on main, which change no version, bring it back."""
    agent, good = grown(make_agent)
    (agent.clone / "infra/runner.py").write_text("raise SystemExit(3)\n")
    agent.commit("broken")
    agent.push_main()
    agent.ask(SignalName.BOOTSTRAP, "main")
    level(agent, "last good", good)
    assert agent.watcher
    agent.watcher.kill()
    agent.watcher.wait()
    first = agent.state().active.boot_id
    failures = agent.log().count('"runner_level": "main"')
    agent.start()
    within(
        30.0,
        lambda: agent.state().active.boot_id not in ("", first) and level(agent, "last good", good),
        "a fresh start",
    )
    assert agent.log().count('"runner_level": "main"') == failures, "a pinned version was led again"
    Git(agent.places.remote)("update-ref", "refs/minifram/retry", "refs/heads/main")
    within(30.0, lambda: not agent.state().pins, "no pins")
    agent.ask(SignalName.BOOTSTRAP, "main")
    within(30.0, lambda: agent.log().count('"runner_level": "main"') > failures, "another try")
    level(agent, "last good", good)
    assert Git(agent.places.remote)("for-each-ref", "refs/minifram/retry") == ""


@pytest.mark.fault("F01")
def test_a_main_that_has_lived_is_not_pinned_for_being_killed(make_agent: MakeAgent) -> None:
    """Three kill -9 from outside: it is started again each time, and nothing else leads in its place."""
    agent, _ = grown(make_agent)
    for _ in range(3):
        before = agent.state()
        os.kill(before.active.pid, signal.SIGKILL)
        agent.serving(but=before.active.boot_id)
    state = level(agent, "main")
    assert (state.pins, state.strikes) == ((), ())
    assert [boot.outcome for boot in state.boots[-4:]] == ["died", "died", "died", "success"]


def push(agent: Agent, words: str, behaviour: str) -> str:
    """Another version of main, by the PM."""
    (agent.clone / "infra/cell").mkdir(exist_ok=True)
    (agent.clone / "infra/cell/version").write_text(words)
    agent.commit(behaviour)
    return agent.push_main()


def test_a_main_of_the_pm_s_displaces_a_runner_that_ignores_it(make_agent: MakeAgent) -> None:
    """These runners never look at main: it has its time, is ended, and the PM reads so; nobody is blamed."""
    agent = make_agent(GOOD, SETTINGS.replace("timing: {", "timing: {make_way_seconds: 1, "))
    agent.start()
    first = agent.serving()
    commit = push(agent, "two", GOOD)
    within(30.0, lambda: agent.state().make_way_by, "the time by which it is to be gone")
    state = agent.serving(but=first.active.boot_id)
    assert state.active.version == version_of(agent.git, commit).id
    assert (state.strikes, state.boots[0].outcome, state.make_way_by) == ((), Outcome.LEFT, None)
    assert "did not make way for main, now at" in agent.told("was ended, main is active")


def test_a_version_that_the_pm_reverted_does_not_lead_again(make_agent: MakeAgent) -> None:
    """It was the last that had served its probation; when the next main cannot live, the one before it leads."""
    settings = SETTINGS.replace("timing: {", "timing: {make_way_seconds: 0.1, ")
    agent = make_agent(GOOD, settings)
    agent.start()
    first = agent.serving()
    good = within(30.0, lambda: agent.state().goods, "a good version")[0]
    unwanted = push(agent, "two", GOOD)
    agent.serving(but=first.active.boot_id)
    within(30.0, lambda: len(agent.state().goods) == 2, "two good versions")
    agent.git("revert", "--no-edit", unwanted)
    agent.push_main()
    within(30.0, lambda: agent.state().goods == (good,), "the one that was taken back gone")
    push(agent, "three", "import no_such_module")
    state = level(agent, "last good")
    assert state.active.version == good.id
    assert Git(agent.places.remote)("for-each-ref", "--format=%(objectname)", "refs/minifram/good") == good.commit


@pytest.mark.fault("F38", "F52")
def test_a_newborn_that_cannot_live_is_led_in_safe_mode(make_agent: MakeAgent) -> None:
    """Nothing was ever good: the image's own runner serves, on the shared main, and the PM reads why."""
    agent = make_agent("import no_such_module", SETTINGS)
    agent.start()
    state = level(agent, "safe mode")
    assert state.main.id == state.pins[0].version
    agent.told("is pinned, safe mode is active")
    assert "no_such_module" in agent.comms()


@pytest.mark.fault("F50")
def test_a_bad_branch_is_not_led_twice(make_agent: MakeAgent) -> None:
    """The same version again is refused with the reason; the PM may allow it."""
    agent, _ = grown(make_agent)
    agent.branch("bad", "import no_such_module")
    agent.ask(SignalName.BOOTSTRAP, "bad")
    agent.told("bad failed, main is active again")
    agent.serving("main")
    launches = agent.log().count('"branch": "bad"')
    agent.ask(SignalName.BOOTSTRAP, "bad")
    agent.told("this version failed at")
    agent.serving("main")
    assert agent.log().count('"runner_level": "branch"') == 2, "one launch, and one that was refused"
    assert launches
