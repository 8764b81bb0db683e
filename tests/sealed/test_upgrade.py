"""`minifram upgrade` with the real image, watcher and agent: it stays, it comes back, it says why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.sealed.agent import SealedAgent, born, until
from bench.sealed.project import Project
from bench.sealed.rootless import Ended
from host.agent.proof import scratch_of
from host.container.words import names
from host.paths import paths_of
from tests.one_folder import leave_one_folder

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1500)]

BEGINS = "    places = zones.places\n"
CHOKES = f"{BEGINS}    if os.path.exists(f'{{places.var}}/choke'):\n        raise RuntimeError('it chokes on it')\n"
NEVER_STARTS = f"{BEGINS}    raise RuntimeError('it never starts')\n"
RECIPE = """{packages}
FROM {first}
COPY . /opt/minifram/
RUN chmod -R u=rwX,go=rX /opt/minifram/infra && \\
    python3.11 -I -m compileall -q -f --invalidation-mode=unchecked-hash /opt/minifram/{path}
"""
"""On an image of another version, with the same packages and users, and but for one file the same code: the whole
recipe is what made that one."""
STEPS = ("a. A directive", "b. A directive to improve itself", "c. A bad upgrade", "d. The PM rolls back")
"""Of the demo, which proves a version: directive, self-upgrade, two bad versions, rollback, in a container."""


class Versions:
    """minifram as it is installed, again and again; `first` is the image that an agent lives in already."""

    def __init__(self, project: Project, first: str) -> None:
        self.project, self.user, self.first = project, project.user, first
        self.images: set[str] = set()

    def other(self, name: str, path: str, old: str, new: str) -> Project:
        """This project with one file of the keep changed, and one folder of tests for the examination in its proof."""
        project = Project(self.user, f"project-{name}", self.project.root)
        leave_one_folder(project.root / "tests")
        file = project.root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        recipe = project.root / "Containerfile"
        packages = re.search(r"^ARG PACKAGES=.*$", recipe.read_text(), re.MULTILINE)
        assert packages
        recipe.write_text(RECIPE.format(packages=packages[0], first=self.first, path=path))
        project.open()
        return project

    def upgrade(self, agent: SealedAgent, project: Project, *words: str, unproved: bool = False) -> Ended:
        """By the command of `project`; `unproved` has a stand-in for the proof."""
        agent.project = project
        command = project.command("host", "upgrade", *words, "--agent", agent.name)
        if unproved:
            launcher = str(project.root / "tests/host/launcher.py")
            environ = ["LAUNCH_WITH_PROOF=exit 0", f"MINIFRAM_AGENT={agent.name}"]
            words = (launcher, str(project.root), "none", "upgrade", *words)
            command = [*command[: command.index("-m")], *words]
            command[1:1] = environ
        ended = self.user.run(*command, check=False, timeout=900.0)
        self.images.add(image(agent))
        self.images.update(re.findall(r"localhost/minifram:[0-9a-f]{12}", ended.stderr))
        return ended

    def clear(self) -> None:
        for name in self.images - {self.first}:
            self.user.podman("rmi", "--force", name, check=False)


def image(agent: SealedAgent) -> str:
    return str(json.loads(agent.podman("container", "inspect", agent.container))[0]["ImageName"])


def memory(agent: SealedAgent) -> dict[str, Any]:
    return dict(json.loads(Path(agent.home.state, "watcher.json").read_text()))


def boots(agent: SealedAgent) -> list[str]:
    return [boot["id"] for boot in memory(agent)["boots"]]


def is_settled(agent: SealedAgent) -> bool:
    names = agent.podman("ps", "--all", "--format={{.Names}}", f"--filter=name={agent.container}").split()
    return names == [agent.container] and bool(agent.state()["Running"]) and not Path(agent.home.switch_file).exists()


@pytest.fixture
def agent(project: Project) -> Iterator[SealedAgent]:
    """One at work."""
    with born(project) as ready:
        ready.minifram("up")
        try:
            yield ready
        finally:
            ready.podman("rm", "--force", "--time=0", "--ignore", ready.container)
            SealedAgent(project, scratch_of(ready.home)).clear()


@pytest.fixture
def versions(project: Project, agent: SealedAgent) -> Iterator[Versions]:
    """Images are removed after the containers that are made of them, by force otherwise."""
    made = Versions(project, image(agent))
    yield made
    agent.podman("rm", "--force", "--time=0", "--ignore", agent.container)
    made.clear()


def test_an_agent_moves_to_a_new_image_only_when_it_lives_there(agent: SealedAgent, versions: Versions) -> None:
    """A good version proves itself and takes over; one that cannot live at all does not even come."""
    first, lived = image(agent), boots(agent)

    good = versions.upgrade(
        agent, versions.other("good", "infra/watcher.py", BEGINS, f"{BEGINS}    # another version\n")
    )
    assert good.returncode == 0, good.stdout + good.stderr
    assert "is proved" in good.stderr
    proof, scratch = Path(agent.home.data, "upgrade-proof.log").read_text(), scratch_of(agent.home)
    for step in STEPS:
        assert step in proof, proof
    assert agent.podman("ps", "--all", "--quiet", f"--filter=name={names(scratch).container}") == ""
    second = image(agent)
    assert second != first
    assert is_settled(agent)
    assert boots(agent)[: len(lived)] == lived
    assert not Path(paths_of(scratch, agent.user.environ, agent.user.uid).data).exists()

    pid = agent.pid()
    refused = versions.upgrade(agent, versions.other("never", "infra/watcher.py", BEGINS, NEVER_STARTS))
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "its proof failed" in refused.stderr
    assert (image(agent), agent.pid()) == (second, pid)
    assert "it never starts" in Path(agent.home.data, "upgrade-proof.log").read_text()


def test_an_image_whose_watcher_fails_there_makes_room_for_the_one_before(
    agent: SealedAgent, versions: Versions
) -> None:
    """One whose watcher cannot start goes again; one that leaves a memory which the one before cannot read is taken
    back by hand, and the memory is the one before's."""
    first = image(agent)
    Path(agent.home.state, "choke").touch()
    lived = boots(agent)
    chokes = versions.other("chokes", "infra/watcher.py", BEGINS, CHOKES)
    taken_back = versions.upgrade(agent, chokes, "--timeout", "30", unproved=True)
    assert taken_back.returncode == 1, taken_back.stdout + taken_back.stderr
    assert "was taken back" in taken_back.stderr
    assert image(agent) == first
    assert is_settled(agent)
    assert boots(agent)[: len(lived)] == lived
    assert "it chokes on it" in agent.page()
    until(lambda: agent.phase() == "running", "the old one serves")

    schema = "minifram.watcher/1"
    Path(agent.home.state, "choke").unlink()
    later = versions.other("later", "infra/shared/watcher_file.py", schema, "minifram.watcher/2")
    forgetful = versions.upgrade(agent, later, unproved=True)
    assert forgetful.returncode == 0, forgetful.stdout + forgetful.stderr
    assert (memory(agent)["schema"], image(agent) != first) == ("minifram.watcher/2", True)
    back = versions.upgrade(agent, later, "--back")
    assert back.returncode == 0, back.stdout + back.stderr
    assert (memory(agent)["schema"], image(agent)) == (schema, first)
    assert set(lived) & set(boots(agent))
    assert is_settled(agent)
