"""`minifram runs`: what the agent wrote of its runs, as the PM sees it."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from host.errors import CommandError
from host.runs import last_runs, replayed, step_line, steps_of
from host.screen import as_json
from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.record import Acted, Answered, Compacted, Ended, Opened, RunRecord, Told
from infra.shared import comms
from infra.shared.conversation import Completion, Message, Request, Text, ToolUse, Usage
from tests.host.desk import Desk, pay

KEY = "ghp_" + "R7vK2mQ9xW4bT8nL3cJ6hD5fZ1gS0pYaUeIo"


def place(desk: Desk, branch: str = "main") -> Path:
    path = Path(desk.home().places.bot) / branch / "minifram" / "logs" / "transcripts"
    path.mkdir(parents=True, exist_ok=True)
    return path


def transcript(desk: Desk, name: str, branch: str = "main") -> RunRecord:
    return RunRecord(str(place(desk, branch) / f"{name}.jsonl"), name)


def a_run(desk: Desk, name: str, branch: str = "main", ended: bool = True) -> None:
    record = transcript(desk, name, branch)
    opening = Request(("You act.",), (Message("user", (Text("Continue."),)),), (), name)
    record.append(Opened(opening, directives=("d1",), most_steps=9))
    call = ToolUse("1", "bash", {"command": f"echo {KEY}"})
    record.append(Answered("1", Completion((Text("I look."), call), "tool_use", "m", Usage(10, 5))))
    record.append(Acted.of("1.1", ToolCall(*call), ToolResult.err("timeout", "oh"), 0.25))
    if ended:
        record.append(Told("1"))
        record.append(Answered("2", Completion((Text("Done."),), "end_turn", "m", Usage(20, 5))))
        record.append(Ended("completed", 2))


def test_runs_are_listed_oldest_first(desk: Desk) -> None:
    """From all clones; one that has no end says so."""
    none = desk.done("runs")
    assert (none.out, "no run yet" in none.err) == ("", True)
    a_run(desk, "2026-01-31T104213.000Z-bbbbbbbb", "work", ended=False)
    a_run(desk, "2026-01-31T104212.000Z-aaaaaaaa")
    first, _, second, _ = desk.done("runs").out.splitlines()
    assert "aaaaaaaa  main  2 steps  0 s  0 tokens  $0.0000  completed" in first
    assert "bbbbbbbb  work  1 step  0 s  0 tokens  $0.0000  goes on, or was cut short" in second
    done, last = desk.done("runs", "--json").json["runs"]
    assert (last["branch"], last["steps"], last["end"], done["end"]) == ("work", 1, "", "completed")


def test_a_run_shows_what_it_was_about_and_what_it_took(desk: Desk) -> None:
    """The directive, as the run was given it; time from its first line to its last; the keep's count."""
    page = "## Directives\n\n- [x] write a parser\n\n## Reports\n"
    [told] = comms.directives(page)
    name = "2026-01-31T104212.000Z-aaaaaaaa"
    opened = Opened(Request((page,), (), (), name), directives=(told.id, "00000000"))
    transcript(desk, name).append(opened)
    path = place(desk) / f"{name}.jsonl"
    first = json.loads(path.read_text()) | {"at": "2026-01-31T10:42:12.000Z"}
    path.write_text(json.dumps(first) + '\n{"at": "2026-01-31T10:44:12.000Z", "kind": "told"}\n')
    for number, (tokens, usd) in enumerate(((1000, 0.25), (202, 0.5))):
        pay(desk.home().places.ledger, usd, tokens, "2026-01-31", run=name, id=str(number))

    head, *about = desk.done("runs").out.splitlines()

    assert "2 min  1,202 tokens  $0.7500" in head
    assert [line.strip() for line in about] == ["write a parser", "00000000"]
    [found] = desk.done("runs", "--json").json["runs"]
    assert (found["tokens"], found["usd"], found["seconds"]) == (1202, 0.75, 120)


def test_a_run_is_shown_step_by_step(desk: Desk) -> None:
    """By the beginning of its name; keys were taken out when it was written."""
    a_run(desk, "2026-01-31T104212.000Z-aaaaaaaa")
    with open(place(desk) / "2026-01-31T104212.000Z-aaaaaaaa.jsonl", "a") as file:
        file.write("no json\n[1]\n")
    shown = desk.done("runs", "2026-01-31")
    lines = shown.out.splitlines()
    assert [line.split()[1] for line in lines] == ["opened", "answered", "acted", "told", "answered", "ended"]
    assert 'acted    1.1    250 ms bash {"command": "echo [secret]"} -> failed (tool_timeout): oh' in lines[2]
    assert ("I look." in lines[1], KEY in shown.out) == (True, False)
    steps = [json.loads(line) for line in desk.done("runs", "2026-01-31", "--json").out.splitlines()]
    assert steps[0]["schema"] == "minifram.run-step/1"
    assert [step["kind"] for step in steps[:4]] == ["opened", "answered", "acted", "told"]
    assert steps[2]["facts"]["args_hash"]


def test_a_step_says_what_became_of_it(desk: Desk) -> None:
    """Why a call was denied; that the conversation became shorter."""
    name = "2026-01-31T104212.000Z-aaaaaaaa"
    record = transcript(desk, name)
    push = ToolCall("1", "bash", {"command": "git push origin HEAD:main " + "#" * 500})
    for result in (ToolResult("To git://127.0.0.1/remote\n"), ToolResult.err("denied", "denied: pushes are the PM's")):
        record.append(Acted.of("1.1", push, result, 0.25))
    record.append(Compacted((Message("assistant", (Text("Half is done."),)),)))

    taken, denied, summed = desk.done("runs", name).out.splitlines()

    assert taken.endswith("-> ok")
    assert denied.endswith(": denied: pushes are the PM's")
    assert summed.split()[1] == "compacted"


def test_what_names_no_run_or_several_is_refused(desk: Desk) -> None:
    """With what would name one."""
    a_run(desk, "2026-01-31T104212.000Z-aaaaaaaa")
    a_run(desk, "2026-01-31T104213.000Z-bbbbbbbb")
    assert desk.run("runs", "nothing").code == desk.run("runs", "nothing", "--replay").code == 4
    assert desk.run("runs", "--replay").code == 2
    several = desk.run("runs", "2026")
    assert several.code == 6
    assert "2 runs begin with '2026'; give more of the name" in several.err
    assert "2026-01-31T104212.000Z-aaaaaaaa, 2026" in several.err
    assert desk.done("runs", "2026-01-31T104213.000Z-bbbbbbbb").out


def test_what_an_agent_may_put_there_is_read_as_an_agent_s(desk: Desk) -> None:
    """Control characters are not shown as they are; lines without end, holes and depth are passed over."""
    here = place(desk)
    (here / "odd.jsonl").write_text(json.dumps({"kind": "ended", "end": "\x1b[2J", "steps": "9" * 99}) + "\n")
    assert "\x1b[2J" not in desk.done("runs").out + desk.done("runs", "odd").out
    with open(here / "busy.jsonl", "wb") as file:
        file.write(b'{"kind": "first"}\n' + b'["",' + b'"",' * 600_000 + b"0]\n" + b"x" * (5 << 20) + b"\n")
        file.write(b'{"kind": "acted", "a": ' + b"[" * 800 + b"]" * 800 + b"}\n")
        file.write(b'{"kind": "second"}\n[' + b'"",' * 100_000 + b"\n")
        file.truncate(file.tell() + (8 << 20))
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"kind": "third", "end": "\\ud800"}\n')
    found = desk.done("runs", "busy", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in found] == ["first", "second", "third"]


def test_a_run_is_replayed(desk: Desk) -> None:
    """As it went, 0; another way, 8 with what differs; unreadable, an error that says where."""
    a_run(desk, "2026-01-31T104212.000Z-aaaaaaaa")
    same = desk.done("runs", "2026-01-31", "--replay")
    assert "4 events, all as recorded" in same.out
    path = place(desk) / "2026-01-31T104212.000Z-aaaaaaaa.jsonl"
    path.write_text(path.read_text().replace('"end": "completed"', '"end": "stuck"'))
    other = desk.run("runs", "2026-01-31", "--replay", "--json")
    assert (other.code, other.json["schema"]) == (8, "minifram.replay/1")
    assert other.json["differences"] == [{"where": "end", "recorded": "stuck", "replayed": "completed"}]
    assert "stuck" in desk.run("runs", "2026-01-31", "--replay").out
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    broken = desk.run("runs", "2026-01-31", "--replay")
    assert (broken.code, "how the run opened" in broken.err) == (1, True)


KEYS = ["at", "kind", "end", "steps", "step_id", "content", "completion", "args", "duration_ms", "text", "request"]
values = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
)
kinds = st.sampled_from(["opened", "answered", "acted", "ended", "x"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values, kinds)
def test_no_line_makes_it_fail(desk: Desk, facts: object, kind: str) -> None:
    """Whatever JSON an agent writes there."""
    line = {**facts, "kind": kind} if isinstance(facts, dict) else facts
    (place(desk) / "odd.jsonl").write_text(json.dumps(line) + "\n")
    [run] = last_runs(desk.home(), 5)
    assert run["steps"] >= 0
    for step in steps_of(desk.home(), "main", "odd"):
        assert "\n" not in step_line(step)
        assert as_json("run-step", step)
    with contextlib.suppress(CommandError):
        replayed(desk.home(), "odd")
