"""The pod of `deploy/kubernetes`, played by podman: it seals itself and serves, with the key for its reader alone;
edited to be looser, it runs no agent, and the PM reads why."""

from __future__ import annotations

import copy
import json
import secrets
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from host.container import image
from infra.shared.exit_codes import Exit
from tests.deploy.manifests import documents, pod_of, the
from tests.sealed.prepare import PLACE
from tests.sealed.support.agent import SealedAgent, born, until
from tests.sealed.support.project import Project
from tests.sealed.support.rootless import Ended, Rootless
from tests.sealed.test_fleet import said

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

KEY = "sk-ant-api03-" + "of-a-test-and-of-nobody-" * 4 + "AA"
SECRET = "/run/minifram/secrets/anthropic_api_key"
GIVE = shlex.split(said("    kubectl -n anna exec -i agent -c prepare --"))[-1]
"""What README's line has a shell of the pod do with the repository."""
AGENT, PM, PREPARE = "agent-agent", "agent-pm", "agent-prepare"
ASK = "python3.11 -c \"import socket; socket.create_connection(('10.255.255.254', 9))\""


CHANGE_ROOT = """
set -e
for each in dev proc sys; do mount --rbind /$each "$ROOT/$each"; done
mkdir -p "$ROOT$HOME"
mount --bind "$HOME" "$ROOT$HOME"
cd "$ROOT"
pivot_root . oldroot
umount -l /oldroot
set +e
export PATH=/usr/bin:/usr/sbin
while read -r line; do
    eval "$line" </dev/null
    printf '\\nended with %s\\n' $?
done
"""
"""For a shell in namespaces of its own; what it has to run afterwards comes line by line."""
ENDED = "ended with "


class Podman5:
    """Debian's newer podman: files that one can change the root to, in namespaces and with a storage of its own. It
    knows containers for as long as the namespaces last that it sees."""

    def __init__(self, user: Rootless) -> None:
        root = user.home / PLACE
        assert root.is_dir(), f"{root} is not there. Run: python -m tests.sealed.prepare (make test does)"
        self.place = user.directory(f"podman5-{secrets.token_hex(4)}")
        self.runtime = root / "run" / self.place.name
        self.runtime.mkdir()
        shutil.chown(self.runtime, user.uid, user.gid)
        options = {"root": self.place / "root", "runroot": self.place / "run", "storage-driver": "overlay"}
        self.command = ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs"]
        # The images of this machine's podman, to be read where they lie: to save and load one takes half a minute.
        images = user.podman("info", "--format={{.Store.GraphRoot}}").stdout.strip()
        options |= {"storage-opt": f"additionalimagestore={images}"}
        self.command += [f"--{option}={value}" for option, value in options.items()]
        environ = [f"ROOT={root}", f"XDG_RUNTIME_DIR=/run/{self.place.name}", "PODMAN_IGNORE_CGROUPSV1_WARNING=1"]
        begin = f'mount --bind "$ROOT" "$ROOT"; {CHANGE_ROOT}'
        words = ("unshare", "env", *environ, "unshare", "--mount", "bash", "-c", begin)
        self.user, self.shell = user, user.popen(*user.command(*words))

    def __call__(self, line: str, check: bool = True) -> Ended:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{line} 2>&1\n")
        self.shell.stdin.flush()
        said: list[str] = []
        for answer in self.shell.stdout:
            if answer.startswith(ENDED):
                status = int(answer.removeprefix(ENDED))
                assert not (check and status), (line, said)
                return Ended([line], status, "".join(said).strip(), "")
            said.append(answer)
        raise AssertionError(f"the shell has ended: {said} {self.shell.stderr.read() if self.shell.stderr else ''}")

    def podman(self, *words: str | Path, check: bool = True) -> Ended:
        return self(shlex.join([*self.command, *map(str, words)]), check)

    def close(self) -> None:
        for kind in (["pod"], []):
            self.podman(*kind, "rm", "--all", "--force", "--time=0", check=False)
        assert self.shell.stdin is not None
        self.shell.stdin.close()
        self.shell.wait(30)
        for stream in (self.shell.stdout, self.shell.stderr):
            assert stream is not None
            stream.close()
        self.user.podman("unshare", "rm", "-rf", self.place, self.runtime)


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
def played(project: Project) -> Iterator[Played]:
    podman = Podman5(project.user)
    try:
        with born(project) as agent:
            pod = Played(podman, agent)
            yield pod
            pod.down()
            podman.podman("volume", "rm", "--all", "--force")
    finally:
        podman.close()


def _loosen(pod: Any) -> None:
    """As somebody might by hand."""
    pod["spec"]["shareProcessNamespace"] = True
    pod["spec"]["volumes"][0]["emptyDir"] = {}
    container = pod["spec"]["containers"][0]
    given = container["securityContext"]
    given["capabilities"]["add"].append("SYS_ADMIN")
    given |= {"allowPrivilegeEscalation": True, "readOnlyRootFilesystem": False}
    for mount in container["volumeMounts"]:
        mount["readOnly"] = False


REFUSALS = (
    *("capabilities that it must not have: capability 21", "no-new-privileges is not set"),
    *("the root file system can be written", "expected 1, so that", "top level can be written", "HEAD can be written"),
)


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
    assert "dnsmasq" in played.inside("ps ax -o args"), "the resolver has its port"

    assert {line.split()[1] for line in played.inside("grep ^Cap /proc/self/status", PM).splitlines()} == {"0" * 16}
    assert played.inside("ls -A /run/minifram /mnt/remote", PM).split() == ["/mnt/remote:", "/run/minifram:"]
    main = played.agent.user.run("git", "-C", played.agent.home.remote, "rev-parse", "main").stdout.strip()
    assert played.inside("git -C /srv/remote.git rev-parse main", PM) == main

    played.podman.podman("pod", "restart", "agent")
    until(lambda: played.serves(2), "it serves after a restart")
    played.down()

    # In the same test, as there is one pod of that name at a time.
    pod = copy.deepcopy(pod_of(the("Sandbox")))
    _loosen(pod)
    played.play(pod)
    refusal = played.refused()
    page = played.inside("git -C /srv/remote.git show main:COMMS.md", PM)
    assert [words for words in REFUSALS if words not in refusal or words not in page] == [], (refusal, page)
    assert page.count("could not be sealed, the agent was not started") == 1
