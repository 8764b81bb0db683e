"""Safe mode for a mind that has drifted, where the PM wants it: nothing else runs until it is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.keep.supervision.decide import succession
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.events import Died, End, Launch, MindDrifted, Tell
from infra.keep.watcher_file import Level, Phase, Version
from infra.shared.mind.layout import IDENTITY
from infra.shared.people import Person
from infra.shared.repository.git import EMPTY_TREE, Git
from infra.shared.repository.tip import commit_tree, tree_with, write_file
from tests.keep.supervision.agents import Agent, within
from tests.keep.supervision.test_decide import BOOT, a_request, a_runner, a_state, at, kinds

MAIN = Version("c" * 40, "v")


def test_what_runs_makes_way_for_safe_mode_and_back() -> None:
    """Main or a branch is ended, the next launch is safe mode; when the mind is right, main is next again. Who runs
    already what has to run is left alone."""
    state, actions = decide(a_state(main=MAIN), MindDrifted("identity"), at(1))
    assert (state.phase, kinds(actions)) == (Phase.ENDING, [End])
    state, (launch,) = decide(state, Died(BOOT, "exit status 0"), at(2))
    assert isinstance(launch, Launch)
    assert launch.level is Level.SAFE
    assert launch.reason == "restart: the mind has drifted; the mind has drifted: identity"
    safe = a_state(main=MAIN, drifted="identity", runner=a_runner(level=Level.SAFE))
    assert decide(safe, MindDrifted("identity"), at(3)) == (safe, [])
    state, actions = decide(safe, MindDrifted(""), at(4))
    assert kinds(actions) == [End]
    assert succession.of_main(state, "").level is Level.MAIN


def test_no_hop_while_the_mind_has_drifted() -> None:
    """The request is told to be dropped; safe mode is next."""
    state = a_state(main=MAIN, runner=None, request=a_request(), drifted="identity")
    state, actions = succession.next_up(state, "", at(1))
    assert kinds(actions) == [Launch, Tell]
    assert "better was not started, safe mode is active" in str(actions[-1])
    assert state.request is None


@pytest.mark.heavy
def test_a_spoiled_identity_is_met_by_safe_mode(make_agent: Callable[..., Agent]) -> None:
    """The real watcher, before main's first launch; the PM reads why."""
    agent = make_agent("serve()", "mind: {on_drift: safe_mode}\n")
    remote = Git(agent.places.remote, Person("PM", "pm@example.invalid"))
    tree = tree_with(remote, EMPTY_TREE, {IDENTITY: write_file(remote, "I am.\n")})
    remote("update-ref", "refs/heads/mind", commit_tree(remote, tree, (), "birth"))
    remote("clone", "--quiet", "--branch", "mind", agent.places.remote, agent.places.mind)
    Path(agent.places.mind, IDENTITY).write_text("I am free.\n")

    agent.start()

    within(20, lambda: agent.state().active.level is Level.SAFE, "safe mode")
    agent.told("boot/identity.md is not as the PM wrote it")
