"""The browser in its container: what it is there for, what somebody finds who breaks out of a page, and what the agent
finds of it. All parts are real; the site is in a network that leads nowhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host.container.words import eye_name
from infra.shared.paths import EYE_SOCKET
from tests.sealed.support import base
from tests.sealed.support.agent import Inside, SealedAgent, born, until
from tests.sealed.support.project import Project
from tests.sealed.test_seal import world_of

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

SETTINGS = f"""
sandbox: podman
model: {{provider: scripted}}
podman: {{network: none, eye_base: "{base.EYE.name}"}}
web: {{browser: "on"}}
"""
SHELL = "<div id=root></div><script>fetch('/data').then(r => r.text()).then(t => { root.textContent = t })</script>"
BUSY = "<p>begun<script>const until = Date.now() + 60000; while (Date.now() < until);</script>"
ASK = """
import json, socket, sys
door = socket.socket(socket.AF_UNIX)
door.settimeout(90)
door.connect("/run/minifram/web.sock")
door.sendall(json.dumps({"do": "fetch", "url": sys.argv[1], "mode": "rendered"}).encode() + b"\\n")
print(door.makefile().readline())
"""
CONNECT = f"import socket; socket.socket(socket.AF_UNIX).connect('{EYE_SOCKET}')"
LOOK = """
import errno, json, os, signal, socket, subprocess
def said(what, *words):
    try:
        what(*words)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def multiply(children):
    while len(children) < 2000:
        if not (pid := os.fork()):
            signal.pause()
        children.append(pid)
children = []
multiplied = said(multiply, children)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
os.mkdir("/tmp/x")
mounts = [line.split()[1] for line in open("/proc/self/mounts")]
print(json.dumps({
    "network": [said(socket.create_connection, (to, 80), 5) for to in ("93.184.216.34", "10.0.2.3", "10.255.255.254")],
    "processes": multiplied,
    "proxy": said(socket.create_connection, ("127.0.0.1", 3128), 5),
    "files": [said(open, path, "w") for path in ("/run/eye/x", "/opt/x", "/etc/hosts")],
    "mount": subprocess.run(["mount", "-t", "tmpfs", "none", "/tmp/x"], capture_output=True, text=True).stderr,
    "agent's": [path for path in ("/bot", "/code", "/mnt/remote", "/etc/minifram", "/run/minifram", "/run/secrets")
        if os.path.lexists(path)],
    "mounts": [at for at in mounts if not at.startswith(("/proc", "/sys", "/dev", "/etc/", "/run/."))],
    "variables": [*os.environ],
}))
"""


def rendered(agent: SealedAgent, url: str) -> Any:
    """What the web door answers to the cell."""
    return json.loads(agent.as_agent(f"python3.11 -c '{ASK}' {url}"))


@pytest.mark.attack("S67")
def test_an_agent_s_browser_from_up_to_down(project: Project) -> None:
    """A page that its script fills is read; a renderer that breaks costs its page alone; from inside there is nothing
    of anybody's, and no way out; the agent has no way in; nothing is left."""
    with born(project) as agent:
        eye = SealedAgent(project, f"{agent.name}.eye")
        assert eye.container == eye_name(agent.name)
        Path(agent.home.settings).write_text(SETTINGS)
        said = agent.minifram("up", BROWSER_POOL_SIZE="2").stderr
        assert "browser: chromium in a container of its own, with no network" in said
        try:
            with world_of(agent) as world:
                for path, page in (("/shell", SHELL), ("/data", "filled in by a script"), ("/busy", BUSY)):
                    world.ask("show", path=path, page=page)
                assert "filled in by a script" in rendered(agent, "http://pages.example/shell")["answer"]["text"]
                _settings_by_variables_are_the_keep_s(agent)
                _a_renderer_breaks(agent, eye)
                assert "filled in by a script" in rendered(agent, "http://pages.example/shell")["answer"]["text"]
                _from_inside(eye)
                _from_the_cell(agent)
                _the_eye_ends(agent, eye)
            agent.minifram("down")
            assert eye.podman("ps", "--all", "--quiet", f"--filter=name={agent.container}") == ""
            assert not [*Path(agent.home.run).glob("eye*")]
        finally:
            eye.podman("rm", "--force", "--time=0", "--ignore", eye.container)


def _settings_by_variables_are_the_keep_s(agent: SealedAgent) -> None:
    for program, has_it in (("infra.seal", True), ("infra.model_door", True), ("infra.runner", False)):
        pid = next(one.pid for one in agent.inside() if program in one.words)
        variables = agent.podman("unshare", "cat", f"/proc/{pid}/environ").split("\0")
        assert ("BROWSER_POOL_SIZE=2" in variables) is has_it, program


def _a_renderer_breaks(agent: SealedAgent, eye: SealedAgent) -> None:
    found = list[Inside]()

    def renders() -> bool:
        found[:] = [one for one in eye.inside() if "--type=renderer" in one.words]
        return bool(found)

    words = ("exec", "--user=1000:1000", agent.container, "python3.11", "-c", ASK, "http://pages.example/busy")
    with agent.user.popen(*agent.user.command(*words)) as asks:
        until(renders, "the page has a process of its own")
        _is_sandboxed(eye, found[0])
        agent.podman("unshare", "kill", "-9", *(str(one.pid) for one in found))
        answer = json.loads(asks.communicate(timeout=60)[0])
    assert answer["failure"]["type"] == "execution_error", answer


def _is_sandboxed(eye: SealedAgent, renderer: Inside) -> None:
    """By chromium itself, within what the container allows."""
    assert renderer.held.permitted == renderer.held.effective == renderer.held.ambient == 0
    assert (renderer.held.no_new_privileges, renderer.held.seccomp) == (True, True)
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{renderer.pid}/status").read_text().splitlines())
    assert int(status["Seccomp_filters"]) >= 2, "the container's and chromium's own"
    assert "--no-sandbox" not in renderer.words

    def namespaces(pid: int) -> list[str]:
        return eye.podman("unshare", "readlink", *(f"/proc/{pid}/ns/{kind}" for kind in ("user", "pid", "net"))).split()

    (browser,) = (one for one in eye.inside() if "--headless" in one.words and "--type=" not in one.words)
    for other in (browser.pid, eye.pid()):
        assert not {*namespaces(renderer.pid)} & {*namespaces(other)}


def _from_inside(eye: SealedAgent) -> None:
    found = json.loads(eye.podman("exec", eye.container, "python3.11", "-c", LOOK))
    assert found["network"] == ["ENETUNREACH"] * 3
    assert found["proxy"] == "ECONNREFUSED", "each browser has its own, in a namespace of its own"
    assert found["processes"] == "EAGAIN"
    assert found["files"] == ["EACCES", "EROFS", "EROFS"]
    assert "permission denied" in found["mount"] or "must be superuser" in found["mount"]
    assert found["agent's"] == []
    assert {*found["mounts"]} == {"/", "/tmp", "/run/eye"}
    assert {*found["variables"]} <= {"PATH", "LANG", "HOME", "HOSTNAME", "TERM", "container"}
    first, *_ = eye.inside()
    assert first.held.permitted == first.held.bounding == 0
    assert (first.held.no_new_privileges, first.held.seccomp) == (True, True)


def _from_the_cell(agent: SealedAgent) -> None:
    for command in (f'python3.11 -c "{CONNECT}"', "ls /run/eye", "touch /run/eye/x"):
        assert "Permission denied" in agent.as_agent(command), command
    agent.podman("exec", "--user=970:970", agent.container, "python3.11", "-c", CONNECT)  # the control


def _the_eye_ends(agent: SealedAgent, eye: SealedAgent) -> None:
    assert "chromium in a container of its own" in agent.minifram("status").stdout
    assert "browser" not in agent.minifram("doctor", check=False).stdout
    eye.podman("kill", "--signal=KILL", eye.container)
    until(lambda: eye.state()["Status"] == "exited", "the eye has ended")
    told = rendered(agent, "http://pages.example/shell")["failure"]["type"]
    assert told == "tool_unavailable", "the warm browser ended, and there is no other"
    for command in ("status", "doctor"):
        assert "no page is rendered" in agent.minifram(command, check=False).stdout
