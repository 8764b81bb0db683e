"""`minifram notify`: what is told, once, and what becomes of a letter that is not taken; no key leaves the host."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from host.home import AgentPaths
from host.notify import Fact, deliver, facts, follow, letter, look
from host.status import Status, read_status
from host.talk import Asking, Report, _asking
from infra.keep.ledger.budgets import Spent
from infra.keep.settings.check import read_settings
from infra.keep.watcher_file import BootRecord, Trouble
from tests.cell.loop.waiting import wait_for
from tests.host.desk import Desk
from tests.shared.leaks import Place, counters_stay, examine, question

AT = "2026-01-31T10:42:12.345Z"
VERSION = f"main@{'0' * 12}"
SPENT = Spent("2026-01-31", 1.0, 9, 0.0, 10.0, 1, False, {})
ASKED = Asking("ab12", "bash", AT, "{}", VERSION, "rule 1")
BOOT = BootRecord(boot_id="b", branch="main", commit="0" * 40, reason="up", started_at=AT)


@pytest.fixture
def now(desk: Desk) -> Status:
    return read_status(desk.home(), time.time())


def told(out: Path) -> list[list[str]]:
    """The texts of each letter."""
    lines = out.read_text().splitlines() if out.exists() else []
    return [[item["text"] for item in json.loads(line)["items"]] for line in lines]


def configure(desk: Desk, **notify: object) -> AgentPaths:
    Path(desk.home().settings).write_text(f"sandbox: process\nnotify: {json.dumps(notify)}\n")
    return desk.home()


@pytest.mark.parametrize(
    ("change", "title", "kinds"),
    [
        ({}, "", []),
        ({"running": True, "is_led": True, "level": "safe mode"}, "", ["pinned"]),
        ({"budget": SPENT}, "", []),
        ({"budget": SPENT._replace(usd=9.0)}, "", ["budget"]),
        ({"budget": SPENT._replace(usd=9.9, exhausted=True)}, "", ["budget", "budget"]),
        ({"boots": (BOOT,), "since": ""}, "", ["stopped"]),
        ({"boots": (BOOT,), "since": AT}, "", []),
        ({"running": True, "failures": 3, "phase": "waiting"}, "", ["stopped"]),
        ({"troubles": (Trouble(at=AT, text="not sealed, not started: why"),)}, "", ["seal"]),
        ({"troubles": (Trouble(at=AT, text="another"),)}, "", []),
        ({"awaiting_approval": (ASKED,)}, "", ["approval"]),
        ({}, f"{VERSION} done: it", ["done"]),
        ({}, f"{VERSION} stopped (max_steps): it", ["stopped"]),
        ({}, f"{VERSION} stopped (awaiting_approval): it", []),
        ({}, "watcher: main failed, stopped (x): y", []),
    ],
)
def test_what_is_told(now: Status, change: dict[str, Any], title: str, kinds: list[str]) -> None:
    page = [Report(AT, title, "")] if title else []
    assert [each.kind for each in facts(now._replace(**change), page)] == kinds


def test_what_holds_is_told_once_and_again_when_it_was_not_taken(desk: Desk) -> None:
    """What is there at the first look is no news, nor what its kind is asked for later."""
    out, gate = desk.root / "out", desk.root / "gate"
    home = configure(desk, command=f"test -e {gate} && cat >>{out}", on=["done"])
    desk.report(f"{VERSION} done: before")
    desk.done("notify", "--once")
    desk.report(f"{VERSION} done: one")
    desk.report(f"{VERSION} stopped (max_steps): three")
    assert "tried again at the next look" in desk.done("notify", "--once").err
    gate.touch()
    desk.report(f"{VERSION} done: two")
    for _ in range(2):
        desk.done("notify", "--once")
    assert told(out) == [[f"{VERSION} done: one", f"{VERSION} done: two"]]
    configure(desk, command=f"cat >>{out}")
    look(desk.context(), home, read_settings(home.settings), print)
    assert len(told(out)) == 1


def test_a_letter_is_one_line_without_keys(tmp_path: Path) -> None:
    key = "ghp_" + "aB3xZ9qW7kL2mN8pR4tY6vD1fG5hJ0sC1u2E"
    words = letter("a", [Fact("k", "done", "one"), Fact("l", "done", f"two\x1b[2J {key}\nthree")], "https://x.example/")
    said = json.loads(words)
    assert (words.count("\n"), key in words, said["agent"]) == (1, False, "a")
    assert said["text"].startswith("a: one; two")
    assert said["text"].endswith(f" {said['link']}")
    assert said["link"] == "https://x.example/a/a/now"
    environ = {"PATH": os.environ["PATH"], "NAME": "n", "ANTHROPIC_API_KEY": "k"}
    assert deliver(f'cat >{tmp_path}/in; echo "$NAME-$ANTHROPIC_API_KEY" >{tmp_path}/env', words, environ) == ""
    assert ((tmp_path / "in").read_text(), (tmp_path / "env").read_text()) == (words, "n-\n")
    assert "exit status 3" in deliver("exit 3", words, environ)


def test_up_starts_the_sender_which_works_alone(desk: Desk) -> None:
    """Without a command there is none."""
    home = configure(desk)

    assert "set notify.command" in desk.run("notify").err
    configure(desk, command=f"cat >>{desk.root / 'out'}")
    assert "delivered" in desk.done("notify", "--test").out
    assert told(desk.root / "out") == [["a test by 'minifram notify --test'"]]
    assert desk.call("up").code == 0
    try:
        wait_for(lambda: Path(home.data, "told.json").exists(), "the first look")
        assert desk.run("notify").code == 6
    finally:
        desk.call("down")
        [pid] = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_sender(path, home)]
        os.kill(pid, signal.SIGTERM)


def _is_sender(path: Path, home: AgentPaths) -> bool:
    try:
        opened = [os.readlink(each) for each in (path / "fd").iterdir()]
    except OSError:
        return False
    return f"{home.data}/notify.lock" in opened


def test_the_sender_ends_with_its_agent(desk: Desk) -> None:
    follow(desk.context(), configure(desk, command="true"), print, pause=0.01, idle=0.1)
    assert Path(desk.home().data, "told.json").exists()


def places(desk: Desk) -> dict[str, Place]:
    home = desk.home()
    return {
        "notification": lambda words, given: letter("a", [Fact("k", "done", words)], None),
        "question": lambda words, given: str(_asking(home, question(words, given))),
    }


@pytest.mark.attack("S52")
def test_no_place_of_the_host_shows_a_secret(desk: Desk) -> None:
    examine(places(desk), 1)


def test_counters_of_tokens_are_shown_in_each_place(desk: Desk) -> None:
    counters_stay(places(desk))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_place_of_the_host_shows_a_secret_in_any_position(desk: Desk, seed: int) -> None:
    examine(places(desk), seed, most=100)
