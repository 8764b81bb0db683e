"""The container as a pod for `podman kube play`: the same sealing, in the words of Kubernetes.

Made from the words of `podman create`: each is said here, or on the command line that plays it, or a pod is so by
default, as its test lists. The seal judges the outcome: it lets no agent run in a looser one. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from host.container.words import AGENT, Sealing, Secret, create_words
from host.context import as_option
from host.errors import CommandError
from infra.shared.exit_codes import Exit
from infra.shared.providers import variable_of

NEEDED = (5, 4)
"""The podman whose pods have memory for emptyDir, sysctls and modes of secrets; this one was seen to."""
MARK = "# Made by 'minifram generate kube"
CONTAINER = "agent"
"""In the pod; podman puts the pod's name before it."""

PLAYED = frozenset(["--network", "--no-hosts", "--log-driver", "--log-opt"])
"""The words of `podman create` that are options of `podman kube play`. `--uidmap` and `--gidmap` have no place in a
pod, which is played in the user's own namespace: agents in pods share one count of processes."""
LIMITS = {"memory": "--memory", "cpu": "--cpus"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def manifest(sealed: Sealing) -> str:
    """The whole file. Raises CommandError for an agent whose name no pod can have."""
    if not _NAME.fullmatch(sealed.name):
        raise CommandError(
            Exit.USAGE,
            f"a pod cannot be named {sealed.name!r}: only letters, digits and '-' within; "
            "such an agent runs by 'minifram up' or as a quadlet unit",
        )
    return "".join(f"{line}\n" for line in _head(sealed)) + yaml.safe_dump(_pod(sealed), sort_keys=False)


def play_words(sealed: Sealing) -> list[str]:
    """Behind `podman`, what plays the manifest; its path comes behind them."""
    said = options(sealed)
    words = [f"{option}={value}" if value else option for option in sorted(PLAYED) for value in said.get(option, ())]
    return ["kube", "play", *words, "--userns=host", f"--seccomp-profile-root={sealed.seccomp.rpartition('/')[0]}"]


def options(sealed: Sealing) -> dict[str, list[str]]:
    """The values of each option of `podman create`."""
    found: dict[str, list[str]] = {}
    for word in create_words(sealed)[1 : -1 - len(sealed.command)]:
        option, _, value = word.partition("=")
        found.setdefault(option, []).append(value)
    return found


def secret_name(secret: Secret) -> str:
    """Of the Secret with this key."""
    return secret.name.replace("_", "-")


def _head(sealed: Sealing) -> Iterator[str]:
    own, file = as_option(sealed.agent), f"{sealed.name}.yaml"
    yield f"{MARK}{own}' from the words that 'minifram up' makes the container with. Not to be edited:"
    yield f"# 'minifram generate kube{own} --check FILE' shows what differs. After 'minifram down', play it with"
    yield f"#   podman {shlex.join([*play_words(sealed), file])}"
    yield f"# and end it with: podman kube down --force {file}"
    if sealed.secrets:
        yield "# Before the first time, give podman the key:"
    for secret in sealed.secrets:
        head = f"apiVersion: v1\\nkind: Secret\\nmetadata: {{name: {secret_name(secret)}}}"
        key = secret.target.rpartition("/")[2]
        yield f"#   printf '{head}\\nstringData: {{%s: %s}}\\n' {key} \"${variable_of(key)}\" | podman kube play -"


def _pod(sealed: Sealing) -> dict[str, Any]:
    said = options(sealed)
    labels = dict(label.split("=", 1) for label in said["--label"])
    profile = sealed.seccomp.rpartition("/")[2]
    user, group = (int(number) for number in said["--user"][0].split(":"))
    limits = {name: values[0] for name, option in LIMITS.items() if (values := said.get(option))}
    storage = list(_storage(sealed))
    dns = {"nameservers": said.get("--dns"), "searches": said.get("--dns-search")}
    annotations = {
        **{name: value for name, value in labels.items() if name != AGENT},
        # podman reads these two and no other place for them.
        f"container.seccomp.security.alpha.kubernetes.io/{CONTAINER}": f"localhost/{profile}",
        "io.podman.annotations.ulimit": ",".join(said["--ulimit"]),
        **{f"io.podman.annotations.pids-limit/{CONTAINER}": limit for limit in said.get("--pids-limit", ())},
    }
    container = {
        "name": CONTAINER,
        "image": sealed.image,
        "imagePullPolicy": said["--pull"][0].capitalize(),
        "args": list(sealed.command),
        "workingDir": said["--workdir"][0],
        "env": _pairs(said["--env"]),
        **({"resources": {"limits": limits}} if limits else {}),
        "securityContext": {
            "runAsUser": user,
            "runAsGroup": group,
            "readOnlyRootFilesystem": "--read-only" in said,
            "allowPrivilegeEscalation": "no-new-privileges" not in said["--security-opt"],
            "capabilities": {"drop": [said["--cap-drop"][0].upper()], "add": said["--cap-add"][0].split(",")},
            "seccompProfile": {"type": "Localhost", "localhostProfile": profile},
        },
        "volumeMounts": [{"name": name, **mount} for name, _, mount in storage],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": sealed.name, "labels": {AGENT: labels[AGENT]}, "annotations": annotations},
        "spec": {
            "hostname": said["--hostname"][0],
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": int(said["--stop-timeout"][0]),
            **({"dnsPolicy": "None", "dnsConfig": dns} if "--dns" in said else {}),
            "securityContext": {"sysctls": _pairs(said["--sysctl"])},
            "containers": [container],
            "volumes": [{"name": name, **volume} for name, volume, _ in storage],
        },
    }


def _storage(sealed: Sealing) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The name of each volume of the pod, what it is, and where it is mounted. Memory gets the mode of the image's
    directory beneath it."""
    for number, scratch in enumerate(sealed.scratch):
        memory = {"medium": "Memory", "sizeLimit": str(scratch.bytes)}
        yield f"memory-{number}", {"emptyDir": memory}, {"mountPath": scratch.target}
    for number, bind in enumerate(sealed.binds):
        mount = {"mountPath": bind.target, "readOnly": bind.is_read_only}
        yield f"bind-{number}", {"hostPath": {"path": bind.source}}, mount
    for number, volume in enumerate(sealed.volumes):
        yield f"volume-{number}", {"hostPath": {"path": volume.source}}, {"mountPath": volume.target}
    for number, secret in enumerate(sealed.secrets):
        key = secret.target.rpartition("/")[2]
        held = {"secretName": secret_name(secret), "defaultMode": secret.mode, "items": [{"key": key, "path": key}]}
        # By itself, not in a directory of links: the seal takes nothing but regular files.
        mount = {"mountPath": secret.target, "subPath": key, "readOnly": True}
        yield f"key-{number}" if number else "key", {"secret": held}, mount


def _pairs(values: list[str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, _, value in (each.partition("=") for each in values)]
