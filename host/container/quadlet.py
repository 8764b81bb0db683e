"""The container as a quadlet unit: systemd starts the agent, at boot too, sealed as `minifram up` seals it.

Made word for word from `create_words`, so that the two cannot drift. Pure; where a unit lies and whether it is still
right is `generated`'s."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from host.container.podman import Podman
from host.container.words import Sealing, create_words, volume_words
from host.context import as_option
from host.errors import CommandError
from infra.shared.exit_codes import Exit

NEEDED = (5, 0)
"""The podman from which on all of these keys are known."""
MARK = "# Made by 'minifram generate quadlet"
"""How a unit of ours begins."""

SWITCHES = {
    "--security-opt=no-new-privileges": ("NoNewPrivileges", "true"),
    "--read-only": ("ReadOnly", "true"),
    "--read-only-tmpfs=false": ("ReadOnlyTmpfs", "false"),
    "--init=false": ("RunInit", "false"),
    "--env-host=false": ("EnvironmentHost", "false"),
    "--sdnotify=conmon": ("Notify", "false"),
}
"""Words that a key says with yes or no."""
KEYS = {
    "--name=": "ContainerName",
    "--label=": "Label",
    "--pull=": "Pull",
    "--user=": "User",
    "--uidmap=": "UIDMap",
    "--gidmap=": "GIDMap",
    "--workdir=": "WorkingDir",
    "--hostname=": "HostName",
    "--cap-drop=": "DropCapability",
    "--cap-add=": "AddCapability",
    "--security-opt=seccomp=": "SeccompProfile",
    "--env=": "Environment",
    "--network=": "Network",
    "--dns=": "DNS",
    "--dns-search=": "DNSSearch",
    "--sysctl=": "Sysctl",
    "--ulimit=": "Ulimit",
    "--pids-limit=": "PidsLimit",
    "--stop-timeout=": "StopTimeout",
    "--log-driver=": "LogDriver",
    "--shm-size=": "ShmSize",
    "--tmpfs=": "Tmpfs",
    "--mount=": "Mount",
    "--volume=": "Volume",
    "--secret=": "Secret",
}
"""The beginning of a word, and the key that takes the rest of it. What has none goes as it is, by PodmanArgs."""
PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+")
"""The keys read quotes, spaces and commas each in its own way; they agree on values of these characters."""

OF_PODMAN = (
    *("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "STORAGE_DRIVER", "STORAGE_OPTS"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""By what podman finds images, volumes and secrets; systemd's own environment may lack them."""

RESTART_SECONDS = 15
STARTS, STARTS_SECONDS = 5, 600
"""More starts than these in so many seconds, and systemd gives up."""
MORE_SECONDS = 30
"""What systemd waits longer than podman, which ends the container at its own deadline."""


def name(agent: str) -> str:
    """Of the service; the unit file has `.container` behind it."""
    return f"minifram-{agent}"


def unit(sealed: Sealing, podman: Podman) -> str:
    """The whole file, for the podman that `up` calls. Raises CommandError for what no unit can say."""
    sections = {
        "Unit": [
            f"Description=minifram agent {sealed.agent}",
            f"StartLimitIntervalSec={STARTS_SECONDS}",
            f"StartLimitBurst={STARTS}",
        ],
        "Container": list(_container(sealed, podman.words)),
        "Service": [
            "Restart=on-failure",
            f"RestartSec={RESTART_SECONDS}",
            "# The seal refused, or broke: starting again mends nothing, and the reason is in COMMS.md.",
            f"RestartPreventExitStatus={int(Exit.DENIED)}",
            # A container that 'minifram up' started is ended first.
            f"TimeoutStartSec={sealed.stop_seconds + 2 * MORE_SECONDS}",
            f"TimeoutStopSec={sealed.stop_seconds + MORE_SECONDS}",
            *(f"Environment={quoted(told, '%')}" for told in _environment(podman.environ)),
            # Without its volumes podman would make empty ones.
            *(f"ExecStartPre={' '.join(map(quoted, words))}" for words in _volumes(sealed, podman)),
        ],
        "Install": ["WantedBy=default.target"],
    }
    own = as_option(sealed.agent)
    head = [
        f"{MARK}{own}' from the words that 'minifram up' makes the container with. Not to be edited:",
        f"# 'minifram generate quadlet{own} --check' shows what differs, '--install' writes it anew.",
    ]
    text = ["\n".join([f"[{section}]", *lines]) for section, lines in sections.items()]
    return "\n".join(head) + "\n" + "\n\n".join(text) + "\n"


def quoted(word: str, doubled: str = "%$") -> str:
    """One word as systemd reads it back; `doubled` are the characters that it would put something else for.

    Raises CommandError for control characters and bytes that are no text: systemd and its generators differ on them."""
    if not word.isprintable():
        raise CommandError(
            Exit.USAGE, f"a unit cannot hold {word!a}: it has control characters or is no UTF-8; rename that place"
        )
    for character in doubled:
        word = word.replace(character, 2 * character)
    if PLAIN.fullmatch(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _environment(environ: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{key}={environ[key]}" for key in OF_PODMAN if environ.get(key))


def _volumes(sealed: Sealing, podman: Podman) -> Iterator[list[str]]:
    for volume in sealed.volumes:
        verb, create, *words = volume_words(volume, sealed.agent, sealed.home)
        yield [podman.program, *podman.words, verb, create, "--ignore", *words]


def _container(sealed: Sealing, global_words: tuple[str, ...]) -> Iterator[str]:
    words = create_words(sealed)
    options = words[1 : -1 - len(sealed.command)]
    yield f"Image={sealed.image}"
    yield from (_line(word) for word in options)
    if global_words:
        yield f"GlobalArgs={' '.join(map(quoted, global_words))}"
    yield f"Exec={' '.join(map(quoted, sealed.command))}"


def _line(word: str) -> str:
    if word in SWITCHES:
        key, value = SWITCHES[word]
        return f"{key}={value}"
    found = max((start for start in KEYS if word.startswith(start)), key=len, default="")
    value = word.removeprefix(found)
    if not found or not PLAIN.fullmatch(value):
        return f"PodmanArgs={quoted(word)}"
    return f"{KEYS[found]}={value.replace(',', ' ') if found == '--cap-add=' else value}"
