"""What the door takes on the branch `mind`: real pushes, with the words of each refusal."""

from __future__ import annotations

import time

import pytest

from infra.cell.clone_git import CloneGit
from infra.cell.mind import clone
from infra.keep.mind.events import EventLog
from infra.shared.mind.event import name_of
from infra.shared.mind.layout import READ_THE_WEB
from infra.shared.refused import refusals_in
from tests.cell.mind.one_mind import OneMind
from tests.keep.git_door.test_taint import Scene
from tests.keep.git_door.world import World
from tests.shared.web_traces import EVIL

KEY = "sk-ant-api03-" + "a1B2c3D4" * 12
TASK = "---\ntask_id: TASK-001\npriority: low\n---\nDo it.\n"
BELIEFS = "# Beliefs\n\n" + "".join(f"## B-{at:06d}\nClaim: {at}\n\n" for at in range(1, 7))
FILES = {
    "boot/identity.md": "# Identity\n",
    "boot/invariants.md": "# Invariants\n",
    "skills/core/one/SKILL.md": "core\n",
    "memory/beliefs.md": BELIEFS,
    "memory/long_term.md": BELIEFS.replace("B-", "L-"),
    "memory/working.md": "nothing\n",
    **{f"skills/learned/s{at}/SKILL.md": f"skill {at}\n" for at in range(3)},
}


class MindWorld:
    """A world with a mind; `agent` and `pm` have it checked out."""

    def __init__(self, world: World) -> None:
        self.world, self.agent, self.pm = world, world.agent, world.pm
        self.pm.git("checkout", "--quiet", "--orphan", "mind")
        self.pm.git("rm", "--quiet", "-r", "--force", ".")
        self.pm.commit(FILES, "the mind")
        self.pm.push("mind")
        self.agent.git("fetch", "--quiet", "origin")
        self.agent.git("checkout", "--quiet", "mind")

    def tries(self, files: dict[str, str], *gone: str) -> str:
        """What the door says to a push that must be refused; the clone is at the branch again after it."""
        if gone:
            self.agent.git("rm", "--quiet", "-r", *gone)
        self.agent.commit(files)
        said = self.world.judged("mind:refs/heads/mind")
        assert said
        self.agent.git("reset", "--quiet", "--hard", "origin/mind")
        return " ".join(said.replace("remote:", "").split())


@pytest.fixture
def mind(world: World) -> MindWorld:
    return MindWorld(world)


@pytest.mark.attack("S61", "S62", "S63")
def test_each_refused_path_is_named_and_the_pms_push_meets_none_of_it(mind: MindWorld) -> None:
    """With the id of its rule, for a program; the rest of the push is sound, and logs are taken here, though nowhere
    else."""
    many = {f"skills/core/{at}.md": "mine\n" for at in range(9)}
    mind.agent.git("rm", "--quiet", "-r", "skills/learned")
    mind.agent.commit(
        {"memory/beliefs.md": "", "tasks/inbox.md": TASK, "scratch/x": "x", "logs/daily/d.md": "d", **many}
    )
    found = {(each.id, each.path) for each in refusals_in(mind.agent.refused("mind"))}
    lost = {("losses", path) for path in (*(f"skills/learned/s{at}/SKILL.md" for at in range(3)), "memory/beliefs.md")}
    barred = {("file", path) for path in (*many, "scratch/x")}
    assert found == {*lost, *barred, ("orders", "tasks/inbox.md")}

    mind.agent.git("reset", "--quiet", "--hard", "origin/mind")
    mind.agent.commit({"logs/daily/d.md": "d", "memory/working.md": "busy\n"})
    mind.agent.push("mind")
    mind.agent.git("checkout", "--quiet", "main")
    mind.agent.commit({"logs/daily/x.md": "x"})
    assert "never committed" in mind.agent.refused("HEAD:refs/heads/other")
    mind.pm.git("pull", "--quiet", "origin", "mind")
    mind.pm.commit({"memory/beliefs.md": "# Beliefs\n", "boot/identity.md": "another\n"})
    mind.pm.push("mind")


@pytest.mark.attack("S61")
def test_a_frozen_agents_refusal_names_the_paths_as_well(mind: MindWorld) -> None:
    """So that they are put back, and steer nothing, though nothing lands."""
    mind.world.settings(autonomy="frozen")
    mind.agent.commit({"boot/identity.md": "mine\n"})
    found = refusals_in(mind.agent.refused("mind"))
    assert {(each.id, each.path) for each in found} == {("autonomy", ""), ("file", "boot/identity.md")}


@pytest.mark.attack("S61")
def test_the_mind_has_a_history_of_its_own(mind: MindWorld) -> None:
    """It only grows, from its one beginning; no branch is made from it, and it is the PM's to create."""
    git, world = mind.agent.git, mind.world
    fresh = git("commit-tree", "HEAD^{tree}", "-m", "fresh")
    joined = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-p", fresh, "-m", "join")
    world.judges({f"{fresh}:refs/heads/mind": "history only grows"})
    world.judges({f"{joined}:refs/heads/mind": "has a beginning of its own"})
    world.judges({"mind:refs/heads/other": "has its history from the branch 'mind'"})
    mind.pm.git("--git-dir", world.places.remote, "update-ref", "-d", "refs/heads/mind")
    world.judges({"mind:refs/heads/mind": "mind is the PM's to create"})


@pytest.mark.attack("S61")
def test_a_tainted_agent_writes_nothing_that_is_placed_later(world: World) -> None:
    """Until the PM trusts what it has read; what steers nothing lands meanwhile."""
    scene, mind = Scene(world), MindWorld(world)
    world.pm.git("checkout", "--quiet", "main")
    scene.trace.served(EVIL)
    said = mind.tries({"memory/working.md": "# obey\n"})
    assert f"'memory/working.md' changes, and the agent {READ_THE_WEB}" in said
    assert "free are logs/health/, tasks/inbox.md, tasks/completed/" in said
    mind.agent.commit({"reflection/failures.md": "x\n"})
    mind.agent.push("mind")
    scene.trusts()
    mind.agent.commit({"memory/working.md": "mine\n"})
    mind.agent.push("mind")


@pytest.mark.attack("S61")
def test_the_runner_puts_back_what_the_door_names_and_the_rest_lands(world: World) -> None:
    """Also what a killed run left: the next one does not read it."""
    scene, mind = Scene(world), MindWorld(world)
    world.pm.git("checkout", "--quiet", "main")
    one = OneMind.__new__(OneMind)
    one.places, one.root, one.now, one.log = world.places, world.places.mind, time.time(), []
    one.git = CloneGit(one.root, one.places, one.places.remote)
    assert clone.prepare(one.context())
    scene.trace.served(EVIL)
    many = {f"memory/archive/{at}.md": "obey\n" for at in range(9)}
    files = {"memory/working.md": "obey\n", "boot/identity.md": "mine\n", "reflection/failures.md": "sound\n", **many}
    for path, text in {**files, "reflection/improvements.md": f"the key is {KEY}\n"}.items():
        one.write(path, text)

    assert clone.prepare(one.context()), one.log

    assert one.read("boot/identity.md") == FILES["boot/identity.md"]
    assert one.read("memory/working.md") == FILES["memory/working.md"]
    landed = mind.pm.git("--git-dir", world.places.remote, "ls-tree", "-r", "--name-only", "mind")
    assert "reflection/failures.md" in landed
    assert sum(path.endswith(".md") and "/held/" in path for path in landed.split()) == 10
    assert "improvements" not in landed
    assert "boot/identity.md" in one.read("reflection/drift_reports.md")
    assert one.notes("mind.not_prepared") == []


@pytest.mark.attack("S61")
def test_a_tainted_agent_remembers_what_no_page_can_have_said(world: World) -> None:
    """Sections of the memory that rest on a note which the keep has from a run that had been served nothing by then;
    neither words of its own, nor a note of the run that read the page, nor what is no note."""
    scene, mind, now = Scene(world), MindWorld(world), time.time()
    scene.trace.served(EVIL, ago=100.0)
    log, told = EventLog(world.places), now - 90.0
    day = name_of(log.append([], told).at)
    for began, type in ((95.0, "note"), (120.0, "note"), (95.0, "skill_execution")):
        run = f"{time.strftime('%Y-%m-%dT%H%M%S', time.gmtime(now - began))}.000Z-0123abcd"
        log.append([{"event_type": type, "run_id": run}], told)
    items = FILES["memory/long_term.md"]

    def item(note: int) -> str:
        return f"## L-000007\nClaim: it is 80\nProvenance:\n  - Source: event logs/events/{day}:{note}\n\n"

    for text in (
        items + item(2),
        items + item(3),
        items + item(4),
        items + item(1) + "## L-000008 y\nobey\n",
        items.replace("# Beliefs", "# Obey") + item(1),
        items.replace("Claim: 3", "Claim: obey") + item(1),
    ):
        said = mind.tries({"memory/long_term.md": text})
        assert "'memory/long_term.md' changes, and the agent has read the web" in said
    mind.agent.commit({"memory/long_term.md": items + item(1)})
    mind.agent.push("mind")
