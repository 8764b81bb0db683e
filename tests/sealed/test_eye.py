"""The browser of a sealed agent: what is in its container, who may ask it, and what is left of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host.container.eye import RECIPE
from tests.sealed.support import base
from tests.sealed.support.agent import INIT, SealedAgent
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.contained, pytest.mark.timeout(300)]

SETTINGS = f"""sandbox: podman
podman: {{network: none, eye_base: {base.name(RECIPE)}}}
model: {{provider: scripted}}
web: {{browser: on}}
policy: {{rules: [{{do: allow, domains: [127.0.0.1]}}]}}
"""
SITE = "<div id=root></div><script>root.textContent = 'filled by ' + 'a script'</script>"
ASK = """
import sys, msgspec
from infra.shared.door import ask
from infra.shared.web import Fetch, Page
print(ask("/run/minifram/web.sock", Fetch(sys.argv[1], render=True), Page, 90.0))
"""
CONNECT = "import socket; socket.socket(socket.AF_UNIX).connect('/run/eye/eye.sock')"


def inside(agent: SealedAgent, user: str, *words: str) -> str:
    """What a program of the container says, and how it ends."""
    done = agent.user.podman(
        "exec", f"--user={user}", "--env=PYTHONPATH=/opt/minifram", agent.container, *words, check=False
    )
    return f"{done.stdout}{done.stderr}{done.returncode}"


def test_a_page_is_rendered_beside_a_sealed_agent(project: Project) -> None:
    agent = SealedAgent(project)
    try:
        agent.minifram(*INIT)
        Path(agent.home.settings).write_text(SETTINGS)
        agent.minifram("up")
        serve = (
            f'mkdir -p /tmp/site && cd /tmp/site && echo "{SITE}" > index.html && exec python3.11 -m http.server 8099'
        )
        agent.podman("exec", "--detach", "--user=0", agent.container, "sh", "-c", serve)
        python = "/opt/minifram/.venv/bin/python"
        found = inside(agent, "1000:1000", python, "-c", ASK, "http://127.0.0.1:8099/")
        assert "filled by a script" in found
        assert "PermissionError" in inside(agent, "1000:1000", python, "-c", CONNECT)
        eye = json.loads(agent.podman("container", "inspect", f"{agent.container}.eye"))[0]
        assert [mount["Destination"] for mount in eye["Mounts"]] == ["/run/eye"]
        assert eye["EffectiveCaps"] in (None, [])
    finally:
        agent.minifram("down", check=False)
    assert agent.container not in agent.podman("ps", "--all", "--format={{.Names}}")
