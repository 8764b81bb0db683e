"""A kernel that refuses the watcher what it needs, or takes its time: it goes on without, and with it again."""

from __future__ import annotations

import pytest

from infra.shared.signals import SignalName
from tests.faults.grown import MakeAgent, grown, kill_runner
from tests.faults.refused_calls import FORKS, injected, injecting
from tests.keep.supervision.agents import within

pytestmark = pytest.mark.heavy


ERRORS = {"EAGAIN": "Resource temporarily unavailable", "ENOMEM": "Cannot allocate memory"}


@pytest.mark.fault("F14")
def test_the_watcher_cannot_start_a_process(make_agent: MakeAgent) -> None:
    """Fault: each fork of the watcher fails, with one error and with another, and then its runner is killed; expected:
    it lives, tries and says why, no version is blamed, and main serves when it can again."""
    agent, _ = grown(make_agent)
    assert agent.watcher
    for error, words in ERRORS.items():
        failures = agent.state().failures
        with injecting(agent.watcher.pid, FORKS, f"error={error}"):
            first = kill_runner(agent)
            within(30.0, lambda failures=failures: agent.state().failures >= failures + 2, "launches in vain")  # type: ignore[misc]
            assert agent.watcher.poll() is None
        second = agent.serving(but=first.active.boot_id)
        assert (second.active.level, second.active.version, second.pins) == ("main", first.active.version, ())
        assert words in agent.log()


@pytest.mark.fault("F22")
@pytest.mark.attack("S29")
def test_the_watcher_gets_no_file_events(make_agent: MakeAgent) -> None:
    """Fault: inotify_init fails with EMFILE, as where all instances of the user are taken; expected: one warning, and a
    signal is found by the poll."""
    agent = make_agent()
    agent.branch("better", "serve()")
    agent.start(before=injected("inotify_init,inotify_init1", "error=EMFILE"))
    agent.serving()
    agent.ask(SignalName.BOOTSTRAP, "better")
    agent.serving("better")
    assert agent.log().count("watch.unavailable") == 1


@pytest.mark.fault("F63")
@pytest.mark.parametrize("delay", ["500ms", pytest.param("2s", marks=pytest.mark.long)])
def test_the_disk_is_slow(make_agent: MakeAgent, delay: str) -> None:
    """Fault: each fsync of watcher, doors, git and runner takes that long; expected: main serves at the first attempt,
    so does the branch that is asked for, and nothing is held against either."""
    agent = make_agent(settings="timing: {rehearse: false, grace_seconds: 5}\n")
    agent.branch("better", "serve()")
    agent.start(before=injected("fsync,fdatasync", f"delay_enter={delay}"))
    agent.serving(seconds=90.0)
    agent.ask(SignalName.BOOTSTRAP, "better")
    state = agent.serving("better", seconds=90.0)
    assert [boot.outcome for boot in state.boots] == ["left", "success"]
    assert (state.pins, state.strikes, state.troubles) == ((), (), ())
