"""The agent as it is, in the sealed container, as an ordinary user runs it."""

from __future__ import annotations

import re

import pytest

from tests.sealed.support.project import Project


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_demo_runs_whole_in_the_container(project: Project) -> None:
    """Directive, self-upgrade, two bad versions, rollback: each step is seen, as without a container, and every test
    of the agent's passes the examination."""
    kept = str(project.user.directory("kept"))
    done = project.minifram("demo", "--sandbox", "podman", "--keep-at", kept, check=False, timeout=1400)
    assert done.returncode == 0, done.stdout + done.stderr
    for step in ("a. A directive", "b. A directive to improve itself", "c. A bad upgrade", "d. The PM rolls back"):
        assert step in done.stdout
    agent = re.search(r"minifram/(demo-[0-9-]+)/remote\.git", done.stdout)
    assert agent
    assert project.user.podman("ps", "--all", "--quiet", f"--filter=name=minifram-{agent[1]}").stdout == ""
