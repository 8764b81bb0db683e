"""What the web door did, as the PM sees it."""

from __future__ import annotations

import json
from pathlib import Path

from host.agent.web import WebUse, read_web
from host.paths import AgentPaths
from tests.host.desk import Desk

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
    line("ok", "https://[no/address"),
    line("denied", "", "private_address"),
    line("denied", "", "private_address", "redirect"),
    line("denied"),
    line("error"),
    '{"torn',
)


def test_the_trace_is_counted(tmp_path: Path) -> None:
    home = AgentPaths("blue", f"{tmp_path}/data", str(tmp_path), f"{tmp_path}/run", f"{tmp_path}/minifram.yaml")
    assert read_web(home, True) == WebUse("waits for its first request", 0, 0, 0, 0, {}, {}, "")
    (tmp_path / "web.jsonl.1").write_text(TRACE[0] * 2)
    (tmp_path / "web.jsonl").write_text("".join(TRACE))
    (tmp_path / "watcher.log").write_text(
        '{"event": "door.started", "door": "web_door", "pid": 1}\n'
        '{"event": "watcher.started"}\n{"event": "door.started", "door": "git_door"}\nno json about web_door\n'
    )
    used = read_web(home, True)
    assert used == WebUse(
        "waits for its first request",
        6,
        1,
        3,
        1,
        {"a.example": 4, "b.example": 1, "pypi.org": 1, "https://[no/address": 1},
        {"private_address": 2, "policy": 1},
        AT,
    )
    with (tmp_path / "watcher.log").open("a") as log:
        log.write('{"event": "door.started", "door": "web_door"}\n')
    assert read_web(home, True).state == "running"
    with (tmp_path / "watcher.log").open("a") as log:
        log.write('{"event": "door.died", "door": "web_door", "how": "exit -9"}\n')
    assert read_web(home, True).state == "died (exit -9), and waits for the next request"
    assert read_web(home, False).state == "down with its agent"


def test_status_shows_it(desk: Desk) -> None:
    """Once it was asked; an agent that reads no pages has no line about them."""
    assert " denied, " not in desk.run("status").out
    Path(desk.home().places.web_trace).parent.mkdir(parents=True, exist_ok=True)
    Path(desk.home().places.web_trace).write_text("".join(TRACE[:-1]))
    shown = desk.run("status").out
    assert "door down with its agent · 4 served of 4 hosts, 3 denied, 1 failed, 1 connection for packages" in shown
    assert desk.run("status", "--json").json["web"]["hosts"] == {
        "a.example": 2,
        "b.example": 1,
        "pypi.org": 1,
        "https://[no/address": 1,
    }
