"""Operations are carried out by the tools, and each is answered by one event."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.cell.actions import ERROR_TYPES, STATUSES, ToolCall, ToolResult
from infra.cell.loop.operations import event_of, message_of, said
from infra.cell.policy.gate import gate_of
from infra.cell.protocol.operations import EVENTS, call_of
from infra.cell.protocol.read import REPLY_BYTES
from infra.cell.tools.edits import edited
from infra.cell.tools.tool import Toolbox, ToolError, Verdict
from infra.shared.policy import Policy, Rule
from tests.cell.loop.workbench import LIMIT, Workbench
from tests.cell.protocol.shapes_seen import SHAPES


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


WHOLE = {
    "createFile": {"path", "bytes"},
    "readFile": {"path", "content", "lines"},
    "editFile": {"path", "replaced"},
    "deleteFile": {"path"},
    "shell": {"stdout", "stderr", "exit"},
    "userMessage": {"text", "from"},
}


def is_well_formed(event: dict[str, Any]) -> bool:
    """As its type says; one that is ok has each field that is not told as missing."""
    msgspec.convert(event, EVENTS[event["type"]])
    whole = event["status"] != "ok" or WHOLE[event["type"]] <= event.keys()
    error = event.get("error")
    told = (error is None) is (event["status"] == "ok") and (
        error is None or (error["type"] in ERROR_TYPES and error["message"] and error["hint"])
    )
    return whole and told and event["status"] in STATUSES


def test_write_run_edit_read_delete(bench: Workbench) -> None:
    """Each event has the fields of its kind, and the id of its operation."""
    events = bench.reply(
        """I begin.
```json
[{"type": "message", "text": "A script, and its run."},
 {"type": "createFile", "path": "scratch/a.sh", "content": {"block": "A"}, "id": "make"},
 {"type": "shell", "command": "sh scratch/a.sh; echo oh >&2; exit 3"},
 {"type": "editFile", "path": "scratch/a.sh", "old": "one", "new": "two"},
 {"type": "readFile", "path": "scratch/a.sh", "limit": 1},
 {"type": "deleteFile", "path": "scratch/a.sh"}]
```
```block A
echo one
echo end
```"""
    )
    assert all(map(is_well_formed, events))
    assert events == [
        {"type": "createFile", "operation": "make", "status": "ok", "path": "scratch/a.sh", "bytes": 18},
        {"type": "shell", "operation": "3", "status": "ok", "stdout": "one\nend\n", "stderr": "oh\n", "exit": 3},
        {"type": "editFile", "operation": "4", "status": "ok", "path": "scratch/a.sh", "replaced": 1},
        {
            **{"type": "readFile", "operation": "5", "status": "ok", "path": "scratch/a.sh"},
            **{"content": "echo two\n", "lines": 2, "truncated": True},
        },
        {"type": "deleteFile", "operation": "6", "status": "ok", "path": "scratch/a.sh"},
    ]
    assert list(bench.clone.joinpath("scratch").iterdir()) == []


def test_one_that_fails_stops_no_other(bench: Workbench) -> None:
    """Nor does one that is none of the six."""
    events = bench.reply(
        '[{"type": "readFile", "path": "no"}, {"type": "runCommand", "command": "x"}, {"type": "shell", "path": "x"},'
        ' {"type": "shell", "command": "echo on"}]'
    )
    assert [(event["type"], event["status"]) for event in events] == [
        *(("readFile", "failed"), ("userMessage", "failed"), ("shell", "failed"), ("shell", "ok")),
    ]
    assert all(map(is_well_formed, events))
    assert events[0]["error"]["message"] == "no does not exist"
    assert "createFile, readFile, editFile, deleteFile, shell" in events[1]["error"]["message"]
    assert events[3]["stdout"] == "on\n"


def test_a_long_output_names_the_file_that_holds_the_whole(bench: Workbench) -> None:
    """Code searches it instead of the model."""
    event = bench.do("shell", command="seq 1 5000; echo end >&2")
    assert event["truncated"] is True
    assert event["stderr"] == "end\n"
    assert len(event["stdout"]) < LIMIT + 100
    found = bench.do("shell", command=f"grep -n 4321 {event['artifact']}")
    assert found["stdout"] == "4321:4321\n"


def test_a_command_has_its_own_time_and_directory(bench: Workbench) -> None:
    bench.clone.joinpath("inner").mkdir()
    assert bench.do("shell", command="pwd", cwd="inner")["stdout"] == f"{bench.clone}/inner\n"
    assert "no directory" in bench.do("shell", command="pwd", cwd="none")["error"]["message"]
    late = bench.do("shell", command="echo here; sleep 9", timeout=0.3)
    assert (late["status"], late["error"]["type"], late["stdout"]) == ("failed", "tool_timeout", "here\n")
    assert "exit" not in late
    assert bench.do("shell", command="kill -TERM $$")["exit"] == 143


def test_the_gate_is_asked_by_the_names_of_the_tools(tmp_path: Path) -> None:
    """What it denies, and what it puts to the PM, are events with a status of their own."""
    asked: list[str] = []

    def gate(tool: Any, given: Any) -> Verdict:
        asked.append(tool.name)
        code = {"bash": "denied", "delete_file": "awaiting_approval"}.get(tool.name, "")
        return Verdict(not code, f"not {tool.name}", code)

    bench = Workbench(tmp_path, gate)
    events = bench.reply(
        '[{"type": "createFile", "path": "./a", "content": "x"}, {"type": "shell", "command": "ls"},'
        ' {"type": "deleteFile", "path": "a"}, {"type": "deleteFile"}]'
    )
    assert asked == ["write_file", "bash", "delete_file"]
    assert [event["status"] for event in events] == ["ok", "denied", "awaiting_approval", "failed"]
    assert {event["error"]["type"] for event in events[1:3]} == {"policy_denied"}
    assert events[1]["error"]["message"] == "not bash"
    assert bench.clone.joinpath("a").exists()


def test_a_file_in_the_signals_is_a_hop() -> None:
    """By its name alone, however the path leads there; nothing else is."""

    def call(path: str, kind: str = "createFile", content: str = "fix\n") -> ToolCall:
        return call_of(kind, {"path": path} | ({"content": content} if kind == "createFile" else {}), "1")

    for path in (".signal/bootstrap", "./.signal//bootstrap", "/bot/.signal/bootstrap", "../../.signal/x/../bootstrap"):
        assert call(path) == ToolCall("1", "bootstrap", {"branch": "fix"})
    assert call(".signal/rollback", content="main~1") == ToolCall("1", "rollback", {"ref": "main~1"})
    assert call("signal/bootstrap").name == call(".signal/other").name == "write_file"
    assert call(".signal/bootstrap", "readFile").name == "read_file"
    event = event_of(call(".signal/bootstrap"), ToolResult("the watcher will start fix", hands_over=True)).plain()
    assert event == {
        **{"type": "createFile", "operation": "1", "status": "ok", "path": ".signal/bootstrap", "bytes": 3},
    }


@pytest.mark.parametrize("code", ["refused", "os_error", "git_error", "timeout", "internal", "not_run", "cut_short"])
def test_every_error_of_a_tool_is_one_of_the_five(code: str) -> None:
    """With a hint, also where the tool has none."""
    for name, given in (("read_file", {"path": "a"}), ("bash", {"command": "ls"}), ("bootstrap", {"branch": "b"})):
        event = event_of(ToolCall("1", name, given), ToolResult.err(code, f"{name}: no")).plain()
        assert is_well_formed(event)
        assert event["error"]["message"] == "no"


def test_events_are_json_whatever_they_hold() -> None:
    events = [said('a "word"\n\ud800', "pm"), said("ä")]
    assert json.loads(message_of(events).encode())["events"][1] == {
        **{"type": "userMessage", "status": "ok", "text": "ä", "from": "runtime"},
    }
    assert "ä" in message_of(events[1:])


OUT: dict[str, tuple[str, str]] = {
    "..": ("../../../beside/secret", "lies outside of the workspace"),
    "absolute": ("{beside}/secret", "lies outside of the workspace"),
    "home": ("~/secret", "names no file"),
    "NUL": ("a\0b", "matching regex"),
    "link out": ("out/secret", "lies outside of the workspace"),
    "link itself": ("leaf", "lies outside of the workspace"),
    "directory": ("src", "is a directory"),
    "the clone": (".", "is a directory"),
    "no directory": ("plain/x", "plain"),
}


@pytest.mark.parametrize("which", OUT)
def test_paths_out_of_the_workspace_and_no_files(bench: Workbench, which: str) -> None:
    """Refused for every kind of operation, and nothing outside is touched."""
    secret = bench.beside / "secret"
    secret.write_text("key")
    bench.clone.joinpath("src").mkdir()
    bench.clone.joinpath("plain").write_text("x")
    bench.clone.joinpath("out").symlink_to(bench.beside)
    bench.clone.joinpath("leaf").symlink_to(secret)
    path, words = OUT[which]
    path = path.format(beside=bench.beside, bot=bench.bot)
    for kind, more in (
        *(("createFile", {"content": "new", "replace": True}), ("readFile", {}), ("deleteFile", {})),
        ("editFile", {"old": "key", "new": "new"}),
    ):
        event = bench.do(kind, path=path, **more)
        assert event["status"] == "failed"
        assert words in event["error"]["message"]
        assert is_well_formed(event)
    assert secret.read_text() == "key"


def test_links_within_the_workspace_are_followed(bench: Workbench) -> None:
    """To the file, which stays one, as the link does."""
    bench.clone.joinpath("a").write_text("x")
    bench.clone.joinpath("to").symlink_to("a")
    assert bench.do("readFile", path="to")["content"] == "x"
    assert bench.do("createFile", path="to", content="y", replace=True)["status"] == "ok"
    assert bench.clone.joinpath("to").is_symlink()
    assert bench.clone.joinpath("a").read_text() == "y"


def test_the_gate_looks_where_the_operation_goes(tmp_path: Path) -> None:
    """Behind a link, `..` is the directory above where the link leads, for both."""
    bench = Workbench(tmp_path)
    rules = (Rule("deny", paths=("kept/",)), Rule("allow", paths=("scratch/", "alias", "settings")))
    gate = gate_of(Policy("deny", rules=rules), str(bench.clone), lambda *_: Verdict(False))
    bench.toolbox = Toolbox(bench.tools, gate)
    for made in ("scratch/in", "kept"):
        (bench.clone / made).mkdir(parents=True)
    (bench.clone / "kept" / "key").write_text("key")
    (bench.clone / "way").symlink_to("scratch/in")
    (bench.clone / "alias").symlink_to("kept/key")
    assert bench.do("readFile", path="way/../alias")["status"] == "failed"
    assert bench.do("createFile", path="way/../settings", content="x")["status"] == "ok"
    assert (bench.clone / "scratch" / "settings").exists()
    assert not (bench.clone / "settings").exists()


def test_clones_of_branches_and_the_agents_own_places_are_the_workspace(bench: Workbench) -> None:
    for path in (f"{bench.bot}/fix/it/minifram/infra/a.py", f"{bench.agent}/notes/a", f"{bench.clone}/x/y"):
        assert bench.do("createFile", path=path, content="x")["status"] == "ok"
        assert Path(path).read_text() == "x"


EDITS: tuple[tuple[int, str, dict[str, Any], str], ...] = (
    (
        79,
        "def f():\n    return 1\n",
        {"old": "def f():\n\treturn 1", "new": "x"},
        "     1  def f():\n     2      return 1",
    ),
    (79, "z\na\r\nb\r\n", {"old": "a\nb", "new": "x"}, "     2  a"),
    (80, "x\ny\nx\nx\n", {"old": "x", "new": "z"}, "occurs 3 times, in lines 1, 3, 4; expected 1"),
    (80, "x\n", {"old": "x", "new": "z", "count": 2}, "occurs 1 times, in lines 1; expected 2"),
    (81, "foo\nbar\n", {"old": "1 | foo\n2 | bar", "new": "x"}, "     1  foo"),
    (83, "a", {"old": "a", "new": "a"}, "equal"),
    (85, "a", {"old": "", "new": "a"}, "empty"),
    (88, "a\nb\n", {"old": "a", "new": "a\n...\nb"}, "leaves out"),
    (88, "a\nb\nc\n", {"old": "a\n...\nc", "new": "x"}, "     1  a\n     2  b\n     3  c"),
    (90, 'say "so" then\n', {"old": "say \u201cso\u201d then", "new": "x"}, "     1  say"),
    (90, "one\n", {"old": "two", "new": "x"}, "No line of the file is like its first"),
)


@pytest.mark.parametrize(("row", "content", "edit", "words"), EDITS)
def test_edits_that_are_asked_for_again(
    bench: Workbench, row: int, content: str, edit: dict[str, Any], words: str
) -> None:
    """By the row of the table of shapes; the file stays as it was."""
    file = bench.clone / "a"
    file.write_bytes(content.encode())
    event = bench.do("editFile", path="./a", **edit)
    assert event["status"] == "failed"
    assert words in event["error"]["message"]
    assert file.read_bytes() == content.encode()


TAKEN: tuple[tuple[int, str, dict[str, Any], str], ...] = (
    (84, "b\n", {"old": "a", "new": "b"}, "b\n"),
    (89, "&lt;a&gt; <b>", {"old": "&lt;a&gt;", "new": "<a> &amp;"}, "<a> &amp; <b>"),
    (93, "one\ntwo", {"old": "two\n", "new": "three\n"}, "one\nthree"),
    (93, "one\ntwo\n", {"old": "two", "new": "three"}, "one\nthree\n"),
    (94, "a a", {"old": "a", "new": "b", "count": 2}, "b b"),
    (16, "a\r\nb\r\n", {"old": "a\r\nb", "new": "c"}, "c\r\n"),
)


@pytest.mark.parametrize(("row", "content", "edit", "after"), TAKEN)
def test_edits_that_are_made(bench: Workbench, row: int, content: str, edit: dict[str, Any], after: str) -> None:
    file = bench.clone / "a"
    file.write_bytes(content.encode())
    event = bench.do("editFile", path="./a", **edit)
    assert event["status"] == "ok"
    assert ("already holds" in event.get("warning", "")) is (after == content)
    assert file.read_bytes() == after.encode()


def test_an_edit_makes_no_file_without_measure() -> None:
    with pytest.raises(ToolError, match="would have 10000000000 bytes"):
        edited(b"a" * 100_000, "a", "b" * 100_000, 100_000)


@pytest.mark.heavy
def test_the_nearest_lines_are_found_in_bounded_time() -> None:
    """Also in a file of long lines."""
    content = "".join(f"{n:300}\n" for n in range(50_000)).encode()
    began = time.monotonic()
    with pytest.raises(ToolError, match="does not occur"):
        edited(content, "b" * 1000, "x", 1)
    assert time.monotonic() - began < 8


def test_a_file_that_changed_since_it_was_read_is_edited_and_that_is_told(bench: Workbench) -> None:
    """Row 91, and its control: what this run wrote or edited itself, it knows."""
    bench.do("createFile", path="a", content="one two")
    assert "warning" not in bench.do("editFile", path="a", old="one", new="1")
    bench.clone.joinpath("a").write_text("1 two three")
    assert "has changed since" in bench.do("editFile", path="a", old="two", new="2")["warning"]
    assert "warning" not in bench.do("editFile", path="a", old="three", new="3")
    assert bench.clone.joinpath("a").read_text() == "1 2 3"


def test_a_file_that_exists_is_replaced_only_when_that_is_said(bench: Workbench) -> None:
    bench.do("createFile", path="a", content="one")
    refused = bench.do("createFile", path="a", content="two")
    assert (refused["status"], refused["error"]["message"]) == ("failed", "a exists")
    assert '"replace" to true' in refused["error"]["hint"]
    assert bench.do("createFile", path="a", content="two", replace=True)["bytes"] == 3
    assert bench.clone.joinpath("a").read_text() == "two"


def test_lines_left_out_are_written_and_warned_of(bench: Workbench) -> None:
    """Row 49."""
    event = bench.do("createFile", path="a.py", content="def f():\n    # ... rest of the code unchanged\n")
    assert event["status"] == "ok"
    assert "left out" in event["warning"]


ELSEWHERE = {
    91: "test_a_file_that_changed_since_it_was_read_is_edited_and_that_is_told",
    98: "test_paths_out_of_the_workspace_and_no_files",
    106: "test_ways: test_what_was_not_taken_goes_back_with_the_right_form",
}


def test_all_shapes_seen_in_the_wild_are_played() -> None:
    """84 rows of the table: what models were seen to write."""
    edits = {row for row, *_ in EDITS} | {row for row, *_ in TAKEN}
    assert len({number for number, *_ in SHAPES} | edits | ELSEWHERE.keys()) == 84


@pytest.mark.heavy
def test_ten_megabytes_are_written_and_are_no_command_line(bench: Workbench) -> None:
    """The longest reply that is read; and what is too long for bash is a failed operation, with a way out."""
    content = "x" * (REPLY_BYTES - 200)
    made, ran = bench.reply(
        f'[{{"type": "createFile", "path": "a", "content": "{content}"}}, {{"type": "shell", "command": "wc -c < a"}}]'
    )
    assert (made["bytes"], ran["stdout"].strip()) == (len(content), str(len(content)))
    [event] = bench.reply(f'[{{"type": "shell", "command": "true {content}"}}]')
    assert (event["status"], event["error"]["type"]) == ("failed", "execution_error")
    assert event["error"]["hint"] == "Write it into a file, and run that"


def many(name: str) -> Callable[[int], str]:
    return lambda count: json.dumps([{"type": "shell", "command": name}] * count)


@pytest.mark.heavy
def test_a_full_list_is_carried_out(bench: Workbench) -> None:
    """200 operations; one more is refused whole (`tests/cell/protocol`)."""
    events = bench.reply(many("true")(200))
    assert [event["operation"] for event in events] == [str(n) for n in range(1, 201)]
