"""An agent on a cluster, reached by the words of README: git over `kubectl exec`, for which `podman exec` stands in."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from host.home import paths_of
from infra.shared.paths import ROOT
from tests.sealed.support.agent import SealedAgent, born, until
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.contained, pytest.mark.timeout(300)]

KUBECTL = """#!/bin/sh -e
[ "$1 $3" = "-n exec" ] && shift 3
[ "$1" != -i ] || { interactive=-i; shift; }
[ "$1 $2" = "agent --" ] && shift 2
exec {podman} exec $interactive {container} "$@"
"""


class Far:
    """A PM who has `kubectl` and no file of the agent's: these are in a container beside it, as in the pod's `pm`."""

    def __init__(self, agent: SealedAgent) -> None:
        self.agent, self._user = agent, agent.user
        self.here = agent.user.directory(f"far-{agent.name}")
        self.container = f"{agent.container}-pm"
        self._path = f"{self.here}/bin:{agent.user.environ['PATH']}"
        image = agent.podman("container", "inspect", "--format={{.ImageName}}", agent.container)
        fences = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=none", "--user=0:0")
        places = (f"--volume={agent.home.remote}:/srv/remote.git", f"--volume={agent.home.places.events}:/events:ro")
        waits = ("--entrypoint=sleep", image, "infinity")
        agent.podman("run", "--detach", f"--name={self.container}", *fences, *places, *waits)
        words = {"podman": " ".join(agent.user.command()), "container": self.container}
        text = KUBECTL.replace("{podman}", words["podman"]).replace("{container}", words["container"])
        self.does(f"mkdir bin; cat >bin/kubectl <<'END'\n{text}END\nchmod +x bin/kubectl")

    def does(self, script: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        words = f"cd {self.here}\n{script}"
        return self._user.run("/usr/bin/env", f"PATH={self._path}", "sh", "-ec", words, check=check)


def said(begin: str) -> str:
    """The line of README's section that begins so."""
    section = Path(ROOT, "README.md").read_text().partition("\n## More than one agent\n")[2].partition("\n## ")[0]
    (line,) = (line.strip() for line in section.splitlines() if line.startswith(f"    {begin}"))
    return line


def test_the_pm_works_by_git_over_exec_alone(project: Project) -> None:
    """A directive goes in, the report comes out: no port, no file of the agent's."""
    with born(project) as agent:
        agent.minifram("up")
        far = Far(agent)
        try:
            _a_directive_is_done(far)
            _an_agent_begins_with_what_was_copied(far)
        finally:
            agent.podman("rm", "--force", "--time=0", far.container)


def _a_directive_is_done(far: Far) -> None:
    identity = "git config user.name PM; git config user.email pm@example.invalid"
    far.does(f"{said('at=')}\n{said('git clone -c')}\ncd anna; {identity}")
    directive = "- [ ] Write src/hello.py that prints hello."
    far.does(f"cd anna; sed -i 's|^## Reports|{directive}\\n\\n&|' COMMS.md; git commit -qam directive; git push -q")
    pulled = "cd anna; git pull -q --rebase; cat COMMS.md"
    until(lambda: "done: Write src/hello.py" in far.does(pulled).stdout, "its report")

    refused = far.does("cd anna; git push -q --force origin HEAD~2:main", check=False)
    assert "denying non-fast-forward" in refused.stderr, "git's own rules hold for the PM, as by path"


def _an_agent_begins_with_what_was_copied(far: Far) -> None:
    """Every branch and each day's events: `init --from` takes what README packs."""
    backup = ("at=", "git clone --mirror", "kubectl -n anna exec agent -- tar", "git -C anna.git bundle")
    far.does("\n".join(map(said, backup)))
    copy = SealedAgent(far.agent.project, f"{far.agent.name}-copy")
    try:
        with copy.user.alone("init"):
            made = json.loads(copy.minifram("init", "--from", f"{far.here}/anna.tar.gz", "--json").stdout)
        heads = far.does("git -C anna.git for-each-ref --format='%(objectname) %(refname)' refs/heads").stdout
        assert f"{made['commit']} refs/heads/main" in heads
        assert "refs/heads/mind" in heads
        mine, its = (paths_of(each.name, each.user.environ, each.user.uid) for each in (far.agent, copy))
        (day,) = Path(mine.places.events).glob("*.jsonl")
        taken = Path(its.places.events, day.name).read_bytes()
        assert taken
        assert day.read_bytes().startswith(taken), "the agent goes on writing"
    finally:
        copy.clear()
