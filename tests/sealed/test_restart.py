"""`minifram restart` onto another version of minifram, with the real image, watcher and agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from infra.shared.exit_codes import Exit
from tests.sealed.support.agent import SealedAgent, born, until
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

BEGINS = "    places = zones.places\n"
NEVER_STARTS = f"{BEGINS}    raise RuntimeError('it never starts')\n"
RECIPE = """{packages}
FROM {first}
COPY . /opt/minifram/
RUN chmod -R u=rwX,go=rX /opt/minifram/infra && \\
    python3.11 -I -m compileall -q -f --invalidation-mode=unchecked-hash /opt/minifram/infra/watcher.py
"""
"""On an image of another version, with the same packages and users: the whole recipe is what made that one."""


def image(agent: SealedAgent) -> str:
    return str(json.loads(agent.podman("container", "inspect", agent.container))[0]["ImageName"])


def other_version(agent: SealedAgent, name: str, code: str) -> Project:
    """This project with other code at the beginning of the watcher."""
    project = Project(agent.user, f"project-{name}", agent.project.root)
    file, recipe = project.root / "infra/watcher.py", project.root / "Containerfile"
    text = file.read_text()
    assert BEGINS in text
    file.write_text(text.replace(BEGINS, code, 1))
    packages = re.search(r"^ARG PACKAGES=.*$", recipe.read_text(), re.MULTILINE)
    assert packages
    recipe.write_text(RECIPE.format(packages=packages[0], first=image(agent)))
    project.open()
    return project


@pytest.fixture
def at_work(project: Project) -> Iterator[tuple[SealedAgent, set[str]]]:
    """One at work, and a place for the names of images that go with it."""
    with born(project) as ready:
        ready.minifram("up")
        shared, made = image(ready), set[str]()
        yield ready, made
        ready.podman("rm", "--force", "--time=0", "--ignore", ready.container)
        for each in made - {shared}:
            ready.podman("rmi", "--force", each, check=False)


@pytest.mark.fault("F84")
def test_an_image_that_does_not_serve_makes_room_for_the_one_before(at_work: tuple[SealedAgent, set[str]]) -> None:
    """It is said why, and the agent goes on as it was; a version that serves takes over."""
    agent, made = at_work
    first, own = image(agent), agent.project
    agent.project = other_version(agent, "never", NEVER_STARTS)
    ended = agent.minifram("restart", "--timeout", "40", check=False)

    assert ended.returncode == Exit.FINDINGS, ended.stdout + ended.stderr
    assert "is started again" in ended.stderr
    assert "it never starts" in ended.stderr
    assert image(agent) == first
    made.update(re.findall(r"localhost/minifram:[0-9a-f]{12}", ended.stderr))
    until(lambda: agent.phase() == "running", "the one before serves")

    agent.project = own
    agent.project = other_version(agent, "good", f"{BEGINS}    # another version\n")
    agent.minifram("restart")
    made.add(image(agent))
    assert image(agent) != first
    agent.project = own
    agent.minifram("restart")
    assert image(agent) == first
