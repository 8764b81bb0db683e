"""A main that asks for a package of its own, in the sealed container and without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.keep.environments.wheelwright import make_wheel, repacked, sha256
from tests.sealed.support.agent import born, first_of_all, until
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

NEEDED = ("GitPython", "gitdb", "smmap", "msgspec", "psutil", "structlog", "watchdog", "PyYAML")
"""What the runner imports."""
SAYS = """
import alpha as _alpha
with open("/bot/first.log", "a") as _log:
    _log.write(f"FIRST {_alpha.VERSION}\\n")
"""


def test_a_main_with_a_package_of_its_own_lives_in_the_container(project: Project) -> None:
    """The cell's user installs it from wheels that lie there, the runner starts with that interpreter and serves,
    and the next start finds it again; the keep goes on with its own."""
    user = project.user
    place = user.directory("wheels")
    wheels = [make_wheel(place, "alpha", "1.0"), *(repacked(place, name) for name in NEEDED)]
    kept = "/bot/wheels"
    lock = f"--no-index\n--find-links {kept}\n" + "".join(
        f"{name}=={version} --hash=sha256:{sha256(wheel)}\n"
        for wheel in wheels
        for name, version, *_ in [wheel.name.split("-")]
    )

    def edit(clone: Path) -> None:
        (clone / "requirements.lock").write_text(lock)
        first_of_all(clone, SAYS)

    with born(project) as agent:
        bot = agent.home.places.bot
        mine = f"mkdir {bot}/wheels && cp {place}/*.whl {bot}/wheels && chown -R 1000:1000 {bot}"
        agent.podman("unshare", "sh", "-c", mine)
        agent.push(edit, "a package of its own")
        agent.minifram("up")
        until(lambda: agent.serves(1), f"it serves; {agent.page()}", seconds=150.0)
        assert agent.starts() == ["1.0"]
        # Between fork and exec a child of the runner has its command line: the runner is the oldest.
        runner = min(
            (each for each in agent.inside() if "/bot/.environments/" in each.words), key=lambda each: each.pid
        )
        assert "infra.runner" in runner.words
        log = Path(agent.home.state, "watcher.log")
        assert log.read_text().count("preparation.began") == 1

        agent.podman("unshare", "kill", str(runner.pid))
        until(lambda: agent.serves(2), "it serves again")

        assert log.read_text().count("preparation.began") == 1
