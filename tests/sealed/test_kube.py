"""The kube manifest, played by podman 5: the pod seals itself and serves however it was started, with the key for its
reader alone; edited by hand to be looser, it runs no agent."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.sealed.agent import SealedAgent, born, until
from bench.sealed.project import Project
from host.container.kube import secret_name
from infra.shared.exit_codes import Exit
from tests.host.test_container_words import a_sealing
from tests.sealed.newer import Podman5

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

REJECTED = "EHOSTUNREACH"
KEY = "sk-ant-api03-" + "of-a-test-and-of-nobody-" * 4 + "AA"
SECRET = "/run/minifram/secrets/anthropic_api_key"


@pytest.fixture
def agent(project: Project) -> Iterator[SealedAgent]:
    with born(project) as agent:
        yield agent


class Played:
    """An agent's manifest, and the pod that podman 5 makes of it."""

    def __init__(self, podman: Podman5, agent: SealedAgent) -> None:
        self.podman, self.agent = podman, agent
        self.text = agent.minifram("generate", "kube").stdout
        agent.minifram("down")
        self.file = agent.user.put(f"{agent.container}.yaml", self.text)
        self.container = f"{agent.container}-agent"

    def give(self, key: str) -> None:
        """By the very line that the manifest has for it."""
        (line,) = (line for line in self.text.splitlines() if line.startswith("#   printf"))
        command = line.removeprefix("#   ").replace("podman kube", f"{shlex.join(self.podman.command)} kube")
        self.podman(f"ANTHROPIC_API_KEY={key}; {command}")

    def play(self, text: str) -> None:
        """By the very command that the manifest names."""
        self.file.write_text(text)
        (command,) = (line for line in text.splitlines() if line.startswith("#   podman kube play"))
        words = shlex.split(command.removeprefix("#   podman "))[:-1]
        self.podman.podman(*words, self.file)

    def down(self) -> None:
        self.podman.podman("kube", "down", "--force", self.file)

    def inside(self, command: str) -> str:
        return self.podman.podman("exec", self.container, "sh", "-c", command).stdout

    def exit_code(self) -> int:
        look = ("container", "inspect", "--format={{.State.Status}} {{.State.ExitCode}}", self.container)
        until(lambda: self.podman.podman(*look).stdout.startswith("exited"), "the container ends")
        return int(self.podman.podman(*look).stdout.split()[1])


def test_the_pod_seals_itself_and_serves(agent: SealedAgent, podman5: Podman5) -> None:
    """Played, restarted as a pod, stopped and started: the canary is rejected before the first line. It has the
    container's limits, and the model door alone the key."""
    agent.settings("model: {provider: anthropic}\n")
    agent.probe()
    agent.minifram("up", ANTHROPIC_API_KEY=KEY)
    until(lambda: agent.serves(1), "it serves")
    played = Played(podman5, agent)
    name = secret_name(a_sealing().secrets[0]).replace("blue", agent.name)
    played.give(KEY)

    played.play(played.text)
    until(lambda: agent.serves(2), "it serves as a pod")
    assert KEY not in played.text
    assert played.inside(f"stat -c '%a %u %F' {SECRET}; wc -c <{SECRET}").split("\n") == [
        "400 0 regular file",
        str(len(KEY)),
    ]
    denied = podman5.podman("exec", "--user=1000:1000", played.container, "cat", SECRET, check=False)
    assert "Permission denied" in denied.stdout
    places = "/mnt/remote /run/minifram /tmp /var/tmp"
    assert played.inside(f"stat -c '%a' {places}").split() == ["700", "701", "1777", "1777"]
    assert played.inside(f"findmnt -no FSTYPE {' '.join(places.split()[:1])}") == "tmpfs"
    assert "infra.model_door" in played.inside("ps ax -o args")
    assert "dnsmasq" in played.inside("ps ax -o args"), "the resolver has its port"
    words = played.inside("cat /proc/1/limits")
    assert "Max core file size        0" in words
    assert "Max processes             1280" in words

    podman5.podman("pod", "restart", agent.container)
    until(lambda: agent.serves(3), "it serves after podman pod restart")
    podman5.podman("pod", "stop", agent.container)
    podman5.podman("pod", "start", agent.container)
    until(lambda: agent.serves(4), "it serves after podman pod stop and start")
    assert agent.starts() == [REJECTED] * 4
    played.down()
    assert podman5.podman("ps", "--all", "--quiet").stdout == ""
    podman5.podman("secret", "rm", name, check=False)


def _container(pod: Any) -> Any:
    return pod["spec"]["containers"][0]


def _without_memory(pod: Any) -> None:
    (mount,) = (one for one in _container(pod)["volumeMounts"] if one["mountPath"] == "/mnt/remote")
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == mount["name"])
    volume["emptyDir"] = {}


def _writable(pod: Any) -> None:
    for mount in _container(pod)["volumeMounts"]:
        mount["readOnly"] = False


LOOSER_POD: dict[str, Callable[[Any], object]] = {
    "expected 1, so that everything ends with it": lambda pod: pod["spec"].update(shareProcessNamespace=True),
    "top level can be written": _without_memory,
    "expected a read-only mount": _writable,
}
"""What the seal says, and what somebody did to the manifest."""
LOOSER_CONTAINER: dict[str, Callable[[Any], object]] = {
    "no-new-privileges is not set": lambda pod: _container(pod)["securityContext"].pop("allowPrivilegeEscalation"),
    "the root file system can be written": lambda pod: _container(pod)["securityContext"].pop("readOnlyRootFilesystem"),
    "capabilities that it must not have": lambda pod: _container(pod)["securityContext"]["capabilities"]["add"].append(
        "SYS_ADMIN"
    ),
    "no seccomp filter is in force": lambda pod: pod["metadata"]["annotations"].update(
        {"container.seccomp.security.alpha.kubernetes.io/agent": "unconfined"}
    ),
}
"""The same of what test_seal loosens in the words of `podman create`."""


@pytest.mark.parametrize(
    "looser",
    [pytest.param(LOOSER_POD, id="pod"), pytest.param(LOOSER_CONTAINER, id="container", marks=pytest.mark.long)],
)
def test_a_manifest_made_looser_by_hand_is_refused(
    agent: SealedAgent, podman5: Podman5, looser: dict[str, Callable[[Any], object]]
) -> None:
    """Whatever was loosened: no agent runs, it is said why, and --check shows the line. The control: as it was made,
    it serves."""
    agent.probe()
    agent.minifram("up")
    until(lambda: agent.serves(1), "it serves")
    played = Played(podman5, agent)
    head = "".join(f"{line}\n" for line in played.text.splitlines() if line.startswith("#"))
    for why, loosen in looser.items():
        pod = yaml.safe_load(played.text)
        loosen(pod)
        played.play(head + yaml.safe_dump(pod, sort_keys=False))
        assert played.exit_code() == Exit.DENIED, why
        assert why in podman5.podman("logs", played.container).stdout
        assert agent.minifram("generate", "kube", "--check", str(played.file), check=False).returncode == Exit.FINDINGS
        played.down()
    assert len(agent.starts()) == 1

    played.play(played.text)
    until(lambda: agent.serves(2), "it serves as it was made")
    assert agent.minifram("generate", "kube", "--check", str(played.file)).returncode == 0
    played.down()
    assert Path(agent.home.remote, "HEAD").exists()
