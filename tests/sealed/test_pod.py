"""A static pod, played by podman 5: it seals itself and serves however it was started, with the key for its reader
alone; edited to be looser, it runs no agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml

from infra.shared.exit_codes import Exit
from tests.sealed.newer import Podman5
from tests.sealed.support.agent import SealedAgent, born, until
from tests.sealed.support.project import Project

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

REJECTED = "EHOSTUNREACH"
KEY = "sk-ant-api03-" + "of-a-test-and-of-nobody-" * 4 + "AA"
SECRET = "/run/minifram/secrets/anthropic_api_key"
GIVEN = "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{anthropic_api_key: {key}}}\n"


class Played:
    """The pod of an agent that was up in a container before."""

    def __init__(self, podman: Podman5, agent: SealedAgent) -> None:
        self.podman, self.agent = podman, agent
        agent.probe()
        agent.settings("model: {provider: anthropic}\n")
        agent.minifram("up", ANTHROPIC_API_KEY=KEY)
        until(lambda: agent.serves(1), "it serves")
        image = agent.podman("container", "inspect", "--format={{.ImageName}}", agent.container)
        agent.minifram("down")
        home = agent.home
        places = {"DATA": home.data, "STATE": home.state, "SETTINGS": home.settings}
        pod = Path(__file__).with_name("pod.yaml").read_text()
        self.text = Template(pod).substitute(places, NAME=agent.container, IMAGE=image)
        self.file = agent.user.put(f"{agent.container}.yaml", self.text)
        self.container = f"{agent.container}-agent"
        self.secret = f"{agent.container}-key"
        key = agent.user.put(f"{self.secret}.yaml", GIVEN.format(name=self.secret, key=KEY))
        podman.podman("kube", "play", key)

    def play(self, text: str) -> None:
        self.file.write_text(text)
        profiles = f"--seccomp-profile-root={self.agent.project.root}/podman"
        self.podman.podman("kube", "play", "--network=none", "--no-hosts", "--userns=host", profiles, self.file)

    def down(self) -> None:
        self.podman.podman("kube", "down", "--force", self.file)

    def inside(self, command: str) -> str:
        return self.podman.podman("exec", self.container, "sh", "-c", command).stdout

    def exit_code(self) -> int:
        look = ("container", "inspect", "--format={{.State.Status}} {{.State.ExitCode}}", self.container)
        until(lambda: self.podman.podman(*look).stdout.startswith("exited"), "the container ends")
        return int(self.podman.podman(*look).stdout.split()[1])


@pytest.fixture
def played(project: Project, podman5: Podman5) -> Iterator[Played]:
    with born(project) as agent:
        pod = Played(podman5, agent)
        yield pod
        podman5.podman("secret", "rm", pod.secret, check=False)


def test_the_pod_seals_itself_and_serves(played: Played) -> None:
    """Played, restarted as a pod, stopped and started: the canary is rejected before the first line. It has the
    container's limits, and the model door alone the key."""
    agent, podman5 = played.agent, played.podman

    played.play(played.text)
    until(lambda: agent.serves(2), "it serves as a pod")
    found = played.inside(f"stat -c '%a %u %F' {SECRET}; wc -c <{SECRET}").split("\n")
    assert found == ["400 0 regular file", str(len(KEY))]
    denied = podman5.podman("exec", "--user=1000:1000", played.container, "cat", SECRET, check=False)
    assert "Permission denied" in denied.stdout
    modes = played.inside("stat -c '%a' /mnt/remote /run/minifram /tmp /var/tmp").split()
    assert modes == ["700", "701", "1777", "1777"]
    assert "dnsmasq" in played.inside("ps ax -o args"), "the resolver has its port"
    assert "Max core file size        0" in played.inside("cat /proc/1/limits")

    podman5.podman("pod", "restart", agent.container)
    until(lambda: agent.serves(3), "it serves after podman pod restart")
    podman5.podman("pod", "stop", agent.container)
    podman5.podman("pod", "start", agent.container)
    until(lambda: agent.serves(4), "it serves after podman pod stop and start")
    assert agent.starts() == [REJECTED] * 4
    played.down()


def _container(pod: Any) -> Any:
    return pod["spec"]["containers"][0]


def _without_memory(pod: Any) -> None:
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == "top")
    volume["emptyDir"] = {}


def _writable(pod: Any) -> None:
    for mount in _container(pod)["volumeMounts"]:
        mount["readOnly"] = False


LOOSER: dict[str, Callable[[Any], object]] = {
    "expected 1, so that everything ends with it": lambda pod: pod["spec"].update(shareProcessNamespace=True),
    "top level can be written": _without_memory,
    "expected a read-only mount": _writable,
}
"""What the seal says, and what somebody did to the pod; test_seal loosens the rest in the words of `podman create`."""


def test_a_pod_made_looser_by_hand_is_refused(played: Played) -> None:
    """Whatever was loosened: no agent runs, and it is said why."""
    for why, loosen in LOOSER.items():
        pod = yaml.safe_load(played.text)
        loosen(pod)
        played.play(yaml.safe_dump(pod, sort_keys=False))
        assert played.exit_code() == Exit.DENIED, why
        assert why in played.podman.podman("logs", played.container).stdout
        played.down()
    assert len(played.agent.starts()) == 1
