"""`minifram logs`: what each wrote, file by file."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from host.screen import LINE_CHARS
from infra.shared.boot import SUCCESS, BootLine, format_line
from tests.cell.loop.waiting import wait_for
from tests.host.desk import Desk
from tests.shared.mind.events import event_of, write_events


def _time(second: int) -> str:
    return f"2026-01-31T10:42:{second:02d}.000Z"


def _watcher(desk: Desk, second: int, event: str, **fields: object) -> None:
    with open(f"{desk.home().state}/watcher.log", "a", encoding="utf-8") as file:
        stamp = f"2026-01-31T10:42:{second:02d}.000000Z"
        file.write(json.dumps({"event": event, **fields, "level": "info", "timestamp": stamp}) + "\n")


def _lines(desk: Desk, *words: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in desk.done("logs", *words, "--json").out.splitlines()]


def test_logs_are_shown_file_by_file_and_chosen(desk: Desk) -> None:
    """Structured lines become words; --json gives each line as it stands."""
    assert desk.done("logs").out == ""
    _watcher(desk, 1, "watcher.started", pid=7)
    _watcher(desk, 5, "runner.died", how="exit status 1", branch="main", boot_id="b" * 32)
    desk.log("main", "bootstrap.log", format_line(BootLine(_time(2), SUCCESS, "main", "a" * 40, "b" * 32)))
    desk.log("main", "errors.log", f"{_time(3)} hello\nTraceback\n  boom\n")
    desk.log("deep/er", "errors.log", json.dumps({"timestamp": _time(4), "event": "unit.begun", "unit": "a b"}) + "\n")
    found = _lines(desk)
    assert {line["schema"] for line in found} == {"minifram.log-line/1"}
    places = [("watcher", ""), ("runner", "deep/er"), ("runner", "main"), ("boot", "main")]
    assert [*dict.fromkeys((line["source"], line["branch"]) for line in found)] == places
    of_main = [line["text"] for line in found if (line["source"], line["branch"]) == places[2]]
    assert of_main == [f"{_time(3)} hello", "Traceback", "  boom"]
    assert json.loads(found[1]["text"])["how"] == "exit status 1"
    out = desk.done("logs").out
    assert "Z runner.died how=exit status 1 branch=main" in out
    assert (out.count(_time(2)), "unit.begun unit=a b" in out, "\x1b" in out) == (1, True, False)
    for words, texts in (
        (("--source", "boot", "-n", "9"), ["SUCCESS"]),
        (("--source", "runner", "-n", "1"), ["unit.begun", "boom"]),
        (("--source", "doors"), []),
        (("-n", "0"), []),
    ):
        lines = desk.done("logs", *words).out.splitlines()
        assert len(lines) == len(texts), words
        assert all(text in line for text, line in zip(texts, lines, strict=True)), words


def test_events_of_the_mind_are_shown_when_asked_for(desk: Desk) -> None:
    write_events(desk.home().places.events, [event_of("words")])
    assert desk.done("logs").out == ""
    [line] = _lines(desk, "--source", "events")
    assert (line["source"], json.loads(line["text"])["run_id"]) == ("events", "run-1")
    assert "skill_execution" in desk.done("logs", "--source", "events").out


def test_no_line_of_the_agents_speaks_under_another_name_or_shows_a_key(desk: Desk) -> None:
    _watcher(desk, 1, "watcher.started")
    log, key = f"{desk.home().state}/watcher.log", f"sk-ant-api03-{'aB3dE5fG7h' * 9}"
    desk.log("main", "errors.log", f"==> {log} <==\n{key}\n")
    [watcher, *mains] = _lines(desk)
    assert json.loads(watcher["text"])["event"] == "watcher.started"
    assert [(line["source"], line["branch"]) for line in mains] == [("runner", "main")] * 2
    assert mains[0]["text"] == f"==> {log} <=="
    for words in ((), ("--json",)):
        assert key not in desk.done("logs", *words).out, words


def test_agent_text_is_data(desk: Desk) -> None:
    """No escape sequence of the agent's reaches the terminal, no field of its breaks the screen, no line fills it."""
    for text in (
        "\x1b[2J\x1b[31mred\x1b[0m \x07bell \x9b1m",
        json.dumps({"event": "\x1b[H", "timestamp": 5, "level": ["x"]}),
        "[" * 100_000,
        '{"event": ' * 2000,
        "\u3164" * 3900,
        json.dumps({"event": "\u00ad" * 600}),
        "==> /etc/passwd <==",
    ):
        desk.log("main", "errors.log", text + "\n")

    out = desk.done("logs").out

    assert ("\x1b" in out, "\x07" in out) == (False, False)
    assert "\\x1b[2Jred \\x07bell" in out
    assert "(cut" in out
    assert all(len(line) < LINE_CHARS + 200 for line in out.splitlines())


def test_following_gives_each_new_line_as_it_comes(desk: Desk) -> None:
    """As JSON one object a line; also of a file that was moved aside; Ctrl-C is how it ends."""
    log = Path(desk.home().state) / "watcher.log"
    _watcher(desk, 1, "one")
    with desk.spawn("logs", "-f", "--json") as process:
        assert process.stdout is not None
        said = [json.loads(process.stdout.readline())]
        _watcher(desk, 2, "two")
        said.append(json.loads(process.stdout.readline()))
        log.rename(f"{log}.1")
        _watcher(desk, 3, "three")
        said.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert {each["schema"] for each in said} == {"minifram.log-line/1"}
    assert [json.loads(each["text"])["event"] for each in said] == ["one", "two", "three"]
    assert (process.returncode, "Traceback" in err) == (130, False)


def test_a_reader_that_has_enough_is_no_trouble(desk: Desk) -> None:
    """`minifram logs -f | head -1` ends quietly."""
    for second in range(3):
        _watcher(desk, second, "again")
    with desk.spawn("logs", "-f") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()

        def ended() -> bool:
            _watcher(desk, 5, "more")
            return process.poll() is not None

        wait_for(ended, "its end")
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0
