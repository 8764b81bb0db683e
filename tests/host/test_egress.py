"""What a contained agent asked of the network, as the PM sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from host.container.podman import Podman
from host.egress import Asked, WebUse, read_rejected, read_web
from tests.host.desk import Desk

QUESTIONS = """\
dnsmasq[9]: query[A] deep.in.example.org from 127.0.0.1
dnsmasq[9]: forwarded deep.in.example.org to 10.0.2.3
dnsmasq[9]: query[A] example.org from 127.0.0.1
no line of dnsmasq's \x1b[2J
"""
COUNTERS = {
    "nftables": [
        {"counter": {"name": "private", "packets": 3, "bytes": 180}},
        {"counter": {"name": "cell_out", "packets": 9, "bytes": 900}},
    ]
}
AT = "2026-01-31T10:42:12.345Z"


def line(status: str, origin: str = "", *flags: str) -> str:
    names = ("at", "run_id", "step_id", "tool_name", "args_hash")
    whole = dict.fromkeys(names, "x") | {"at": AT, "duration_ms": 3, "status": status}
    return json.dumps(whole | {"origin": origin, "policy_flags": flags}) + "\n"


TRACE = (
    line("ok", "https://a.example"),
    line("ok", "https://a.example:8443"),
    line("ok", "https://b.example", "rule 2"),
    line("package", "https://pypi.org:443"),
    line("denied", "", "private_address"),
    line("denied", "", "private_address", "redirect"),
    line("denied"),
    line("error"),
    '{"torn',
)


def test_the_trace_is_counted_and_shown(desk: Desk) -> None:
    """Once the door was asked; an agent that reads no pages has no line about them. What is torn is passed over."""
    state = Path(desk.home().state)
    assert "\nweb " not in desk.run("status").out
    (state / "web.jsonl.1").write_text(TRACE[0] * 2)
    (state / "web.jsonl").write_text("".join(TRACE))

    hosts = {"https://a.example": 3, "https://a.example:8443": 1, "https://b.example": 1, "https://pypi.org:443": 1}
    requests = {"ok": 5, "package": 1, "denied": 3, "error": 1}
    assert read_web(desk.home()) == WebUse(requests, hosts, AT)
    shown = f"6 served of 4 hosts, 3 denied, 1 failed · last {AT}"
    assert shown in desk.run("status").out
    assert desk.run("status", "--json").json["web"]["hosts"] == hosts


@pytest.mark.parametrize(
    ("script", "rejected", "why"),
    [
        (
            f'[ "$4" = nft ] && [ "$3" = minifram-blue ] && echo \'{json.dumps(COUNTERS)}\'',
            [("private", 3)],
            "",
        ),
        ("echo no such container >&2; exit 125", None, "no such container"),
        ("echo '[]'", None, "cannot be understood"),
    ],
)
def test_rules_are_asked_of_the_agents_container(
    tmp_path: Path, script: str, rejected: list[tuple[str, int]] | None, why: str
) -> None:
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    found, said = read_rejected(Podman(str(program), {"PATH": "/usr/bin:/bin"}), "blue")
    assert (found and list(found.items()), why in said) == (rejected, True)


def test_names_and_the_mode_are_shown(desk: Desk) -> None:
    """Both logs count; an agent without a container has nothing to show."""
    refused = desk.run("egress")
    assert (refused.code, "has no container" in refused.err) == (6, True)
    state, settings = Path(desk.home().state), Path(desk.home().settings)
    (state / "resolver.log.1").write_text(QUESTIONS)
    (state / "resolver.log").write_text("dnsmasq[9]: query[A] other.example from 127.0.0.1\n" + "x" * 5000)
    settings.write_text("sandbox: podman\negress: {mode: door}\n")

    shown, found = desk.done("egress"), desk.done("egress", "--json").json

    assert found["names"] == {
        "example.org": Asked(questions=2, bytes=6)._asdict(),
        "other.example": Asked(questions=1, bytes=0)._asdict(),
    }
    assert (found["rejected"], found["why_unknown"], found["web"]) == (None, "the agent is not running", None)
    assert "mode: door" in shown.out
    assert [line.split() for line in shown.out.splitlines() if "example.org" in line] == [["example.org", "2", "6"]]
