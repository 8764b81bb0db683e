"""The manifests for a cluster, judged without one: by the schemas of Kubernetes, and by the fields of the engine's
Sandbox that they use. Each kind of slip is refused by its name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from infra.keep.settings.check import read_settings
from infra.shared.paths import CONTAINER
from tests.deploy.manifests import ROOT, documents, pod_of, problems, the
from tests.shared.rows import each_row

pytestmark = pytest.mark.heavy


def test_every_manifest_is_what_kubernetes_and_the_engine_take() -> None:
    """Two claims, one Sandbox, one policy, the settings, and in the example a namespace."""
    everything = [*documents("base"), *documents("example")]
    kinds = sorted(each["kind"] for each in everything)
    assert kinds == ["ConfigMap", "Namespace", "NetworkPolicy", *["PersistentVolumeClaim"] * 2, "Sandbox"]
    assert [problem for each in everything for problem in problems(each)] == []


def _pod(sandbox: Any) -> Any:
    return sandbox["spec"]["podTemplate"]["spec"]


SLIPS: list[tuple[str, Callable[[Any], object]]] = [
    (
        "spec: Additional properties are not allowed ('hostUser' was unexpected)",
        lambda s: _pod(s).update(hostUser=False),
    ),
    ("spec must not contain {'replicas'}", lambda s: s["spec"].update(replicas=1)),
    ("securityContext must contain ['seccompProfile']", lambda s: _pod(s)["securityContext"].pop("seccompProfile")),
    ("spec.hostUsers must be same as const definition: False", lambda s: _pod(s).update(hostUsers=True)),
    ("agent: there is no volume 'top' for /mnt/remote", lambda s: _pod(s)["volumes"].pop(0)),
]


@each_row("words, slip", SLIPS)
def test_a_slip_in_the_sandbox_is_named(words: str, slip: Callable[[Any], object]) -> None:
    """By each who judges: Kubernetes' schemas, the engine's fields, what we demand, and what no schema sees."""
    sandbox = copy.deepcopy(the("Sandbox"))
    slip(sandbox)
    assert words in "\n".join(problems(sandbox))


def test_the_example_changes_what_is_there() -> None:
    """Its patches meet the lines that they are meant for, and leave a Sandbox that the engine takes."""
    words = yaml.safe_load((ROOT / "example/kustomization.yaml").read_text())
    sandbox = the("Sandbox")
    (patch,) = words["patches"]
    resolver, machines = yaml.safe_load(patch["patch"])
    arguments = _pod(sandbox)["containers"][0]["args"]
    assert resolver["path"].endswith(f"/spec/containers/0/args/{_index(arguments, '--upstream=')}")
    assert machines["path"].endswith("/spec/containers/0/args/-")
    assert [each["value"].partition("=")[0] for each in (resolver, machines)] == ["--upstream", "--host"]
    assert problems(sandbox) == []
    images = {each["image"] for each in (*_pod(sandbox)["initContainers"], *_pod(sandbox)["containers"])}
    assert images == {each["name"] for each in words["images"]} == {"minifram"}


def _index(words: list[str], prefix: str) -> int:
    (found,) = (place for place, word in enumerate(words) if word.startswith(prefix))
    return found


def test_memory_gets_its_modes_before_the_agent_begins() -> None:
    """Kubernetes makes it everybody's; podman gives it the modes of the image, so a played pod does not show this."""
    pod = _pod(the("Sandbox"))
    memory = {volume["name"] for volume in pod["volumes"] if volume.get("emptyDir", {}).get("medium") == "Memory"}
    prepare, agent = pod["initContainers"][0], pod["containers"][0]
    orders = (line.split() for line in prepare["args"][0].splitlines())
    modes = {place: mode for word, mode, *places in orders if word == "chmod" for place in places}
    places = {mount["mountPath"] for mount in agent["volumeMounts"] if mount["name"] in memory}
    assert places == {mount["mountPath"] for mount in prepare["volumeMounts"] if mount["name"] in memory}
    assert {place: mode for place, mode in modes.items() if place in places} == {
        "/mnt/remote": "700",
        "/run/minifram": "711",
        "/code": "711",
        "/tmp": "1777",
        "/var/tmp": "1777",
        "/examination": "1777",
    }


def test_no_container_of_the_pod_has_more_than_it_needs(tmp_path: Any) -> None:
    """The key is seen by the agent's alone, and the settings are good ones; that its rights and its places are those
    of `minifram up`, the seal demands of a played pod (`tests/sealed/test_pod.py`)."""
    pod = pod_of(the("Sandbox"))["spec"]
    everyone = [*pod["initContainers"], *pod["containers"]]
    assert all(each["securityContext"]["readOnlyRootFilesystem"] for each in everyone)
    assert not any(each["securityContext"]["allowPrivilegeEscalation"] for each in everyone)
    keys = [(each["name"], mount) for each in everyone for mount in each["volumeMounts"] if mount["name"] == "key"]
    file = tmp_path / "minifram.yaml"
    file.write_text(the("ConfigMap")["data"]["minifram.yaml"])
    settings = read_settings(str(file))
    assert (settings.sandbox, settings.egress.mode) == ("podman", "door")
    place = f"{CONTAINER.secrets}/{settings.model.provider}_api_key"
    assert [(name, mount["mountPath"]) for name, mount in keys] == [("agent", place)]
