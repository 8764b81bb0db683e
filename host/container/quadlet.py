"""The container as a quadlet unit: systemd starts the agent, at boot too, sealed as `minifram up` seals it.

Made word for word from `create_words`, so that the two cannot drift: each word goes as it is, by PodmanArgs; only the
name has a key, which the generator would choose itself otherwise. Pure; where a unit lies and whether it is still
right is decided in `host.agent.generate`."""

from __future__ import annotations

import re

from host.container.podman import Podman
from host.container.words import Sealing, create_words, volume_words
from host.context import as_option
from host.errors import CommandError
from infra.shared.exit_codes import Exit

NEEDED = (5, 0)
"""The podman from which on all of these keys are known."""
MARK = "# Made by 'minifram generate quadlet"
"""How a unit of ours begins."""
PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+")
"""What systemd and podman's generator read alike without quotes."""

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
    own = as_option(sealed.agent)
    options = create_words(sealed)[1 : -1 - len(sealed.command)]
    lines = [
        f"{MARK}{own}' from the words that 'minifram up' makes the container with. Not to be edited:",
        f"# 'minifram generate quadlet{own} --check' shows what differs, '--install' writes it again.",
        "[Unit]",
        f"Description=minifram agent {sealed.agent}",
        f"StartLimitIntervalSec={STARTS_SECONDS}",
        f"StartLimitBurst={STARTS}",
        "",
        "[Container]",
        f"Image={sealed.image}",
        f"ContainerName={sealed.name}",
        *(f"PodmanArgs={quoted(word)}" for word in options if not word.startswith("--name=")),
        *([f"GlobalArgs={' '.join(map(quoted, podman.words))}"] if podman.words else []),
        f"Exec={' '.join(map(quoted, sealed.command))}",
        "",
        "[Service]",
        "Restart=on-failure",
        f"RestartSec={RESTART_SECONDS}",
        "# The seal refused, or broke: starting again mends nothing, and the reason is in COMMS.md.",
        f"RestartPreventExitStatus={int(Exit.DENIED)}",
        # A container that 'minifram up' started is ended first.
        f"TimeoutStartSec={sealed.stop_seconds + 2 * MORE_SECONDS}",
        f"TimeoutStopSec={sealed.stop_seconds + MORE_SECONDS}",
        *(f"Environment={quoted(f'{key}={podman.environ[key]}', '%')}" for key in OF_PODMAN if podman.environ.get(key)),
    ]
    for volume in sealed.volumes:  # without them podman would make empty ones
        verb, create, *words = volume_words(volume, sealed.agent, sealed.home)
        command = [podman.program, *podman.words, verb, create, "--ignore", *words]
        lines.append(f"ExecStartPre={' '.join(map(quoted, command))}")
    return "\n".join([*lines, "", "[Install]", "WantedBy=default.target", ""])


def quoted(word: str, doubled: str = "%$") -> str:
    """One word as systemd reads it back; `doubled` are the characters that it would put something else for.

    Raises CommandError for control characters and bytes that are no text: systemd and its generators differ on them."""
    if not word.isprintable():
        raise CommandError(
            Exit.USAGE, f"a unit cannot hold {word!a}: it has control characters or is not UTF-8; rename that place"
        )
    for character in doubled:
        word = word.replace(character, 2 * character)
    if PLAIN.fullmatch(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
