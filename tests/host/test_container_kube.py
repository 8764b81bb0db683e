"""Kube manifests: every word of `podman create` has a place in them, and they say the same sealing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from host.container.kube import PLAYED, manifest, options, play_words
from host.container.words import Image, Sealing, sealing
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.providers import KEYS
from infra.shared.settings import PodmanSettings, Settings
from tests.host.desk import Desk
from tests.host.test_container_machine import GOOD
from tests.host.test_container_quadlet import printable
from tests.host.test_container_words import a_sealing

SAID = frozenset(
    [
        *("--name", "--label", "--pull", "--user", "--workdir", "--hostname", "--cap-drop", "--cap-add"),
        *("--security-opt", "--read-only", "--env", "--sysctl", "--ulimit", "--pids-limit", "--memory", "--cpus"),
        *("--stop-timeout", "--restart", "--tmpfs", "--mount", "--volume", "--secret", "--dns", "--dns-search"),
    ]
)
"""In the manifest."""
NOT_IN_PODS = frozenset(["--uidmap", "--gidmap"])
BY_ITSELF = frozenset(
    [
        *("--ipc", "--uts", "--pid", "--cgroupns", "--systemd", "--init", "--sdnotify", "--stop-signal"),
        *("--env-host", "--http-proxy", "--unsetenv-all", "--shm-size", "--read-only-tmpfs"),
    ]
)
"""How a pod is by default, or near to it: 64 MB of shared memory, a writable /run that nothing is run from."""
SEALINGS = [
    a_sealing(),
    a_sealing(keys=()),
    a_sealing(network="none"),
    a_sealing(GOOD._replace(version=(5, 4), pasta="/usr/bin/pasta", networks=("93.184.216.0/24",))),
    a_sealing(GOOD._replace(log_driver="journald", selinux=True, controllers=frozenset())),
    a_sealing(settings=Settings(podman=PodmanSettings(pids=300, cpus=1.5))),
]


def pod(sealed: Sealing) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole and its one container."""
    found = yaml.load(manifest(sealed), Loader=yaml.CSafeLoader)
    (container,) = found["spec"]["containers"]
    return found, container


@pytest.mark.parametrize("sealed", SEALINGS)
def test_each_option_of_podman_create_has_one_place(sealed: Sealing) -> None:
    """In the manifest, on the command line that plays it, or among what a pod is by itself."""
    found = options(sealed).keys()

    kinds = (SAID, PLAYED, BY_ITSELF, NOT_IN_PODS)
    assert found <= frozenset[str]().union(*kinds)
    assert len(frozenset[str]().union(*kinds)) == sum(map(len, kinds))
    words = play_words(sealed)
    for option in found & PLAYED:
        assert any(word.startswith(option) for word in words)
    assert "--seccomp-profile-root=/project/podman" in words


@pytest.mark.parametrize("sealed", SEALINGS)
def test_the_manifest_says_the_same_sealing(sealed: Sealing) -> None:
    """Rights, file systems, limits, names; each from the value that `up` uses."""
    found, container = pod(sealed)
    security, said = container["securityContext"], options(sealed)

    assert (found["metadata"]["name"], container["image"], container["imagePullPolicy"]) == (
        "minifram-blue",
        sealed.image,
        "Never",
    )
    assert container["args"] == list(sealed.command)
    assert security["capabilities"] == {"drop": ["ALL"], "add": said["--cap-add"][0].split(",")}
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert (security["runAsUser"], security["runAsGroup"]) == (0, 0)
    assert security["seccompProfile"] == {"type": "Localhost", "localhostProfile": "seccomp.json"}
    annotations = found["metadata"]["annotations"]
    assert annotations["container.seccomp.security.alpha.kubernetes.io/agent"] == "localhost/seccomp.json"
    assert annotations["io.podman.annotations.ulimit"].split(",") == said["--ulimit"]
    assert [annotations.get("io.podman.annotations.pids-limit/agent")] == said.get("--pids-limit", [None])
    sysctls = {f"{one['name']}={one['value']}" for one in found["spec"]["securityContext"]["sysctls"]}
    assert sysctls == set(said["--sysctl"])
    assert {f"{one['name']}={one['value']}" for one in container["env"]} == set(said["--env"])
    limits = container.get("resources", {}).get("limits", {})
    assert [limits.get("memory"), limits.get("cpu")] == [said.get(one, [None])[0] for one in ("--memory", "--cpus")]
    assert found["spec"]["restartPolicy"] == "Never"
    assert found["spec"]["terminationGracePeriodSeconds"] == sealed.stop_seconds
    assert found["spec"].get("dnsConfig", {}).get("nameservers") == said.get("--dns")
    assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & found["spec"].keys()
    assert "privileged" not in security


@pytest.mark.parametrize("sealed", SEALINGS)
def test_what_is_mounted_is_what_up_mounts(sealed: Sealing) -> None:
    """Each place of the host's where it belongs, read-only where it is; memory; the key for its reader alone."""
    found, container = pod(sealed)
    sources = {volume["name"]: volume for volume in found["spec"]["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}

    assert len(sources) == len(mounts) == len(container["volumeMounts"])
    for bind in sealed.binds:
        mount = mounts.pop(bind.target)
        assert (sources[mount["name"]]["hostPath"]["path"], mount["readOnly"]) == (bind.source, bind.is_read_only)
    for volume in sealed.volumes:
        mount = mounts.pop(volume.target)
        assert (sources[mount["name"]]["hostPath"]["path"], mount.get("readOnly", False)) == (volume.source, False)
    for scratch in sealed.scratch:
        memory = sources[mounts.pop(scratch.target)["name"]]["emptyDir"]
        assert memory == {"medium": "Memory", "sizeLimit": str(scratch.bytes)}
    for secret in sealed.secrets:
        mount = mounts.pop(secret.target)
        held = sources[mount["name"]]["secret"]
        assert (held["secretName"], held["defaultMode"]) == ("minifram-blue-anthropic-api-key", 0o400)
        assert (mount["subPath"], mount["readOnly"]) == ("anthropic_api_key", True)
    assert mounts == {}


@given(place=printable, config=printable)
def test_odd_characters_in_paths_stay_as_they_are(place: str, config: str) -> None:
    """YAML has a way to say each of them."""
    home = AgentPaths("blue", f"/{place}/blue", f"/s{place}/blue", "/run/blue", f"/{config}/minifram.yaml")
    sealed = sealing(home, Settings(), GOOD, Image("localhost/minifram:v1", "v1"), "/project", KEYS[:1])
    found, _ = pod(sealed)

    paths = [volume["hostPath"]["path"] for volume in found["spec"]["volumes"] if "hostPath" in volume]
    assert paths == [*(bind.source for bind in sealed.binds), *(volume.source for volume in sealed.volumes)]


@pytest.mark.parametrize(("agent", "allowed"), [("blue-2", True), ("a_b", False), ("a-", False)])
def test_a_name_that_no_pod_can_have_is_refused(agent: str, allowed: bool) -> None:
    """An agent may have one that Kubernetes does not know; there are other ways to run it."""
    home = AgentPaths(agent, "/d", "/s", "/r", "/c/minifram.yaml")
    sealed = sealing(home, Settings(), GOOD, Image("localhost/minifram:v1", "v1"), "/project", KEYS[:1])
    if allowed:
        assert pod(sealed)[0]["metadata"]["name"] == f"minifram-{agent}"
        return
    with pytest.raises(CommandError, match="a pod cannot be named"):
        manifest(sealed)


def test_its_first_lines_say_how_to_play_it() -> None:
    """With a Secret only when there is a key."""
    assert "podman kube play --log-driver=" in manifest(a_sealing())
    assert "kind: Secret" in manifest(a_sealing())
    assert "kind: Secret" not in manifest(a_sealing(keys=()))


@pytest.mark.parametrize("words", [("--install",), ("--check",)])
def test_a_manifest_has_no_place_of_its_own(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The PM says where it lies."""
    ended = Desk(tmp_path).run("generate", "kube", *words)
    assert (ended.code, "redirect it" in ended.err) == (2, True)
