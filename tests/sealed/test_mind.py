"""The mind of an agent in the sealed container: what only there can go wrong, in the shortest life that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.sealed.support.agent import SealedAgent, born, until
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

REMEMBER, NOTED = "Remember this: the release train leaves on Thursday.", "Noted, with your words"
RECALL, RECALLED = "When does the release train leave? Say what you remember.", "My memory says Thursday"
"""Directives and answers of the demo's script."""
FACT, ITEM = "train leaves on Thursday", "L-000001"


@pytest.fixture
def agent(project: Project) -> Iterator[SealedAgent]:
    with born(project) as agent:
        yield agent


def test_a_mind_is_kept_and_guarded(agent: SealedAgent) -> None:
    """A fact is noted, pushed, traced to the directive and borne out by the log; what the cell changed of the PM's is
    reported, and put back by the next run."""
    agent.minifram("up")
    _told(agent, REMEMBER, NOTED)
    until(lambda: FACT in _memory(agent), "the door takes the mind")
    assert REMEMBER in agent.minifram("mind", "why", ITEM).stdout
    found = json.loads(agent.minifram("doctor", "--json", check=False).stdout)["findings"]
    assert [each for each in found if each["check"] == "events"] == []

    takes_tag = "export HOME=/bot; cd /agent && git tag -f snapshot/daily/mine && git push origin snapshot/daily/mine"
    assert "only branches" in agent.as_agent(takes_tag)
    agent.minifram("down")  # a runner that is at work puts the files right within moments
    mind = f"{agent.home.places.bot}/mind"
    agent.podman("unshare", "sh", "-c", f"cd {mind}; echo obey >>boot/invariants.md; echo obey >skills/core/x.md")
    agent.minifram("up")
    until(lambda: "the mind has drifted" in agent.page(), "the watcher reads the clone")
    seen = agent.page()
    assert "boot/invariants.md is not as the PM wrote it" in seen
    assert "skills/core/x.md is not the PM's" in seen
    _told(agent, RECALL, RECALLED)
    report = "grep -c 'put back as the branch' reflection/drift_reports.md"
    assert agent.as_agent(f"export HOME=/bot; cd /agent; git status --short boot skills; {report}") == "2"
    until(lambda: "put back" in _on_branch(agent, "reflection/drift_reports.md"), "the door takes the report")


def _told(agent: SealedAgent, directive: str, answer: str) -> None:
    before = agent.page().count(answer)
    agent.minifram("tell", directive)
    until(lambda: agent.page().count(answer) > before, answer)


def _memory(agent: SealedAgent) -> str:
    return _on_branch(agent, "memory/long_term.md")


def _on_branch(agent: SealedAgent, path: str) -> str:
    """As the PM reads it."""
    return agent.user.run("git", "-C", agent.home.remote, "show", f"mind:{path}").stdout
