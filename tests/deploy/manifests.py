"""The manifests of `deploy/kubernetes`, read and judged without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import kubernetes_validate  # type: ignore[import-untyped]
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1] / "deploy/kubernetes"
VERSIONS = ("1.33", "1.37")
"""Of Kubernetes: the first that has user namespaces without being asked, and the newest whose schemas are here."""


@cache
def _closed() -> Any:
    return fastjsonschema.compile(json.loads((HERE / "sandbox.schema.json").read_text()))


def documents(folder: str) -> list[Any]:
    """What is applied of a folder: all but the words to kustomize."""
    files = sorted((ROOT / folder).glob("*.yaml"))
    found = (each for file in files for each in yaml.safe_load_all(file.read_text()))
    return [each for each in found if each["kind"] != "Kustomization"]


def the(kind: str) -> Any:
    """The one document of this kind in the base."""
    (found,) = (each for each in documents("base") if each["kind"] == kind)
    return found


def pod_of(sandbox: Any) -> Any:
    """The pod that the engine makes of it."""
    template = sandbox["spec"]["podTemplate"]
    metadata = {**template.get("metadata", {}), "name": sandbox["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def problems(document: Any) -> list[str]:
    """What no cluster would take, or we would not give it: where it is, and what it is called."""
    if document["kind"] != "Sandbox":
        return list(_by_kubernetes(document))
    try:
        _closed()(document)
    except fastjsonschema.JsonSchemaValueException as error:
        return [error.message]
    return [*_by_kubernetes(pod_of(document)), *_unnamed(document["spec"]["podTemplate"]["spec"])]


def _by_kubernetes(document: Any) -> Iterator[str]:
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version}: {'.'.join(map(str, error.absolute_path))}: {error.message}"


def _unnamed(pod: Any) -> Iterator[str]:
    """A volume that is mounted and is not there, which no schema sees."""
    there = {volume["name"] for volume in pod["volumes"]}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        for mount in container["volumeMounts"]:
            if mount["name"] not in there:
                yield f"{container['name']}: there is no volume {mount['name']!r} for {mount['mountPath']}"
