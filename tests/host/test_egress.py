"""What a contained agent asked of the network, as the PM sees it."""

from __future__ import annotations

import json
from pathlib import Path

from host.agent.egress import read_egress
from host.container.counters import Count
from host.container.podman import Podman
from host.container.query_log import Asked
from host.paths import AgentPaths
from host.running import record
from tests.host.desk import Desk

QUESTIONS = """\
dnsmasq[9]: query[A] deep.in.example.org from 127.0.0.1
dnsmasq[9]: forwarded deep.in.example.org to 10.0.2.3
dnsmasq[9]: query[A] example.org from 127.0.0.1
no line of dnsmasq's \x1b[2J
"""
COUNTERS = {
    "nftables": [
        {"counter": {"name": "private_10", "packets": 3, "bytes": 180}},
        {"counter": {"name": "cell_out", "packets": 9, "bytes": 900}},
    ]
}


def a_home(tmp_path: Path) -> AgentPaths:
    return AgentPaths("blue", f"{tmp_path}/data", str(tmp_path), f"{tmp_path}/run", f"{tmp_path}/minifram.yaml")


def a_podman(tmp_path: Path, script: str) -> Podman:
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Podman(str(program), {"PATH": "/usr/bin:/bin"})


def test_names_and_rejections(tmp_path: Path) -> None:
    """Both logs count; the rules are asked of the container that is the agent's."""
    (tmp_path / "resolver.log.1").write_text(QUESTIONS)
    (tmp_path / "resolver.log").write_text("dnsmasq[9]: query[A] other.example from 127.0.0.1\n" + "x" * 5000)
    podman = a_podman(tmp_path, f'[ "$4" = nft ] && [ "$3" = minifram-blue ] && echo \'{json.dumps(COUNTERS)}\'')

    found = read_egress(a_home(tmp_path), podman, 20)

    assert found.total == Asked(questions=3, sent=1, bytes=6)
    assert found.names == {"example.org": Asked(2, 1, 6), "other.example": Asked(1, 0, 0)}
    assert found.rejected == {"private_10": Count(3, 180)}
    assert found.web.state == "waits for its first request"


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """The names are shown all the same; an agent that never asked has none."""
    failing = read_egress(a_home(tmp_path), a_podman(tmp_path, "echo no such container >&2; exit 125"), 20)
    garbled = read_egress(a_home(tmp_path), a_podman(tmp_path, "echo '[]'"), 20)
    down = read_egress(a_home(tmp_path), None, 20)

    assert (failing.rejected, garbled.rejected, down.rejected) == (None, None, None)
    assert "no such container" in failing.why_unknown
    assert "cannot be understood" in garbled.why_unknown
    assert down.why_unknown == "the agent is not running"
    assert (down.total, down.names) == (Asked(), {})


def test_the_mode_is_shown(desk: Desk) -> None:
    """What the agent was started with, by a version that knew no modes as well; its settings, by doctor."""
    for settings, words in (({"egress.mode": "door"}, "door, the agent reaches the keep's doors"), ({}, "open, ")):
        record.write(desk.home(), record.PODMAN, sealed=True, settings=settings)
        assert f"mode: {words}" in desk.run("egress").out
    for text, said in (
        ("sandbox: process\negress: {mode: door}\n", "which nothing enforces in the process sandbox"),
        ("sandbox: podman\negress: {mode: door}\n", "pip, uv and npm reach nothing"),
        ("sandbox: podman\negress: {mode: door}\nweb: {package_hosts: [pypi.org]}\n", "packages from pypi.org"),
        ("sandbox: podman\n", "the agent reaches every public address"),
    ):
        record.write(desk.home(), text.split()[1], sealed=True)
        Path(desk.home().settings).write_text(text)
        assert said in desk.run("doctor").out


def test_without_a_container_there_is_nothing_to_count(desk: Desk) -> None:
    """That is no error of the PM's machine, and is said."""
    refused = desk.run("egress")

    assert refused.code == 6
    assert "was not started in a container" in refused.err


def test_what_needs_a_container_says_so_in_one_way(desk: Desk) -> None:
    """Whichever command it is: a conflict with how the agent was started."""
    record.write(desk.home(), record.PROCESS, sealed=False)
    for words in (("egress",), ("generate", "quadlet"), ("upgrade",)):
        refused = desk.run(*words)
        assert (refused.code, "was not started in a container" in refused.err) == (6, True), words


def test_an_agent_without_a_network_is_told_from_one_that_asked_nothing(desk: Desk) -> None:
    """Zeros alone would say that it kept quiet."""
    for network, said in (("none", True), (None, False)):
        record.write(desk.home(), record.PODMAN, sealed=True, settings={"podman.network": network})
        assert ("it has no network" in desk.run("egress").err) is said
