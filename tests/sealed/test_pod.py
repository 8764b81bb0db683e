"""The pod of `deploy/kubernetes`, played by podman: it seals itself and serves, with the key for its reader alone;
edited to be looser, it runs no agent, and the PM reads why."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from host.container import image
from infra.shared.exit_codes import Exit
from tests.deploy.manifests import documents, pod_of, the
from tests.sealed.newer import Podman5
from tests.sealed.support.agent import SealedAgent, born, until
from tests.sealed.support.project import Project
from tests.sealed.test_fleet import said

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

KEY = "sk-ant-api03-" + "of-a-test-and-of-nobody-" * 4 + "AA"
SECRET = "/run/minifram/secrets/anthropic_api_key"
GIVE = shlex.split(said("    kubectl -n anna exec -i agent -c prepare --"))[-1]
"""What README's line has a shell of the pod do with the repository."""
AGENT, PM, PREPARE = "agent-agent", "agent-pm", "agent-prepare"
ASK = "python3.11 -c \"import socket; socket.create_connection(('10.255.255.254', 9))\""


class Played:
    """The pod of an agent that `minifram init` made."""

    def __init__(self, podman: Podman5, agent: SealedAgent) -> None:
        self.podman, self.agent = podman, agent
        root = str(agent.project.root)
        layers = agent.podman("image", "inspect", "--format={{.RootFS.Layers}}", image.DEBIAN)
        base = image.Base(image.DEBIAN, layers, is_complete=True)
        self.image = f"{image.AGENT.name}:{image.version_of(root, base)}"
        shown = agent.user.podman("image", "exists", self.image, check=False)
        assert shown.returncode == 0, f"{self.image} is not there. Run: python -m tests.sealed.prepare (make test does)"
        self.file = agent.user.put(f"{agent.container}.yaml", "")
        self.given = [each for each in documents("base") if each["kind"] in ("ConfigMap", "PersistentVolumeClaim")]
        key = {"metadata": {"name": "model-key"}, "stringData": {"anthropic_api_key": KEY}}
        self.given.append({"apiVersion": "v1", "kind": "Secret", **key})

    def play(self, pod: Any) -> None:
        """Begun, and not waited for, as it waits for the repository. What podman reads elsewhere than Kubernetes is
        put there: the profile, and limits. None on processes: root of the pod is the user of all tests here, whose
        processes would count."""
        pod = copy.deepcopy(pod)
        pod["spec"]["restartPolicy"] = "Never"
        annotations = pod["metadata"]["annotations"]
        for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
            container["image"] = self.image
            annotations[f"container.seccomp.security.alpha.kubernetes.io/{container['name']}"] = (
                "localhost/seccomp.json"
            )
        annotations["io.podman.annotations.ulimit"] = "nofile=4096:4096,core=0:0"
        self.file.write_text(yaml.safe_dump_all([*self.given, pod]))
        profiles = f"--seccomp-profile-root={self.agent.project.root}/podman"
        words = ["kube", "play", "--network=none", "--no-hosts", "--userns=host", profiles, str(self.file)]
        self.podman(f"{shlex.join([*self.podman.command, *words])} >{self.file}.log 2>&1 &")

    def give_repository(self) -> None:
        until(lambda: PREPARE in self.podman.podman("ps").stdout, "it waits for the repository")
        tar = f"{self.file}.tar"
        self.agent.user.run("tar", "-C", self.agent.home.data, "-cf", tar, "remote.git")
        self.podman(f"{shlex.join([*self.podman.command, 'exec', '-i', PREPARE, 'sh', '-c', GIVE])} <{tar}")

    def down(self) -> None:
        self.podman.podman("kube", "down", self.file)

    def inside(self, command: str, container: str = AGENT, user: str = "0:0") -> str:
        """What it says, whatever comes of it."""
        words = ("exec", f"--user={user}", container, "sh", "-c", f"{{ {command}; }} 2>&1; true")
        return self.podman.podman(*words, check=False).stdout

    def serves(self, count: int) -> bool:
        """It is up for the `count`th time."""
        told = self.inside("cat /var/lib/minifram/watcher.log").count('"watcher.started"')
        said = self.inside("cat /var/lib/minifram/watcher.json")
        return told == count and said.startswith("{") and json.loads(said)["phase"] == "running"

    def refused(self) -> str:
        """What the seal says when it has ended the agent's container."""
        look = ("container", "inspect", "--format={{.State.Status}} {{.State.ExitCode}}", AGENT)
        until(lambda: self.podman.podman(*look, check=False).stdout == f"exited {int(Exit.DENIED)}", "it is refused")
        return self.podman.podman("logs", AGENT).stdout


@pytest.fixture
def played(project: Project, podman5: Podman5) -> Iterator[Played]:
    with born(project) as agent:
        pod = Played(podman5, agent)
        yield pod
        pod.down()
        podman5.podman("volume", "rm", "--all", "--force")


def _container(pod: Any) -> Any:
    return pod["spec"]["containers"][0]


def _more_rights(pod: Any) -> None:
    given = _container(pod)["securityContext"]
    given["capabilities"]["add"].append("SYS_ADMIN")
    given["allowPrivilegeEscalation"] = True


def _other_mounts(pod: Any) -> None:
    pod["spec"]["shareProcessNamespace"] = True
    pod["spec"]["volumes"][0]["emptyDir"] = {}
    for mount in _container(pod)["volumeMounts"]:
        mount["readOnly"] = False


LOOSER: dict[tuple[str, ...], Callable[[Any], object]] = {
    ("capabilities that it must not have: capability 21", "no-new-privileges is not set"): _more_rights,
    ("the root file system can be written",): lambda pod: _container(pod)["securityContext"].update(
        readOnlyRootFilesystem=False
    ),
    ("expected 1, so that", "top level can be written", "HEAD can be written"): _other_mounts,
}
"""What the seal says, and what somebody did to the pod."""


@pytest.mark.attack("S47")
def test_the_pod_seals_itself_and_serves(played: Played) -> None:
    """Given its repository, and again after a restart. The model door alone has the key, the cell is behind the rules,
    and where the PM's git arrives is no right and no key. Loosened by hand, it runs no agent, and each thing is named,
    in the container's log and to the PM."""
    played.play(pod_of(the("Sandbox")))
    played.give_repository()
    until(lambda: played.serves(1), "it serves as a pod")
    found = played.inside(f"stat -c '%a %u %F' {SECRET}; wc -c <{SECRET}").split("\n")
    assert found == ["400 0 regular file", str(len(KEY))]
    for command, refusal in ((f"cat {SECRET}", "Permission denied"), (ASK, "No route to host")):
        assert refusal in played.inside(command, user="1000:1000")
    modes = played.inside("stat -c '%a' /mnt/remote /run/minifram /code /tmp /var/tmp /examination /var/lib/minifram")
    assert modes.split() == ["700", "701", "711", "1777", "1777", "1777", "700"]
    assert "dnsmasq" in played.inside("ps ax -o args"), "the resolver has its port"

    assert {line.split()[1] for line in played.inside("grep ^Cap /proc/self/status", PM).splitlines()} == {"0" * 16}
    assert played.inside("ls -A /run/minifram /mnt/remote", PM).split() == ["/mnt/remote:", "/run/minifram:"]
    main = played.agent.user.run("git", "-C", played.agent.home.remote, "rev-parse", "main").stdout.strip()
    assert played.inside("git -C /srv/remote.git rev-parse main", PM) == main

    played.podman.podman("pod", "restart", "agent")
    until(lambda: played.serves(2), "it serves after a restart")
    played.down()

    # In the same test, as there is one pod of that name at a time.
    for number, (why, loosen) in enumerate(LOOSER.items()):
        pod = copy.deepcopy(pod_of(the("Sandbox")))
        loosen(pod)
        played.play(pod)
        refusal = played.refused()
        assert [words for words in why if words not in refusal] == [], refusal
        page = played.inside("git -C /srv/remote.git show main:COMMS.md", PM)
        assert [words for words in why if words not in page] == [], page
        assert page.count("could not be sealed, the agent was not started") == number + 1
        played.down()
