"""The witness, with ordinary processes as the agent: every read of the world is seen, its own are not, and a tool's
digest is that of the bytes that were read."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import home_watch
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_files import Identity, ToolFile
from witness import Witness

from tests.shared.rows import each_row

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")

EMPTY = {"read": [], "listed": [], "tools": {}, "changed": [], "overflow": False}
SCRIPT = "#!/bin/sh\necho one\n"


class Place:
    """A world, a home, and a witness of both."""

    def __init__(self, root: Path) -> None:
        self.world, self.home = root / "world", root / "home"
        (self.world / "deep/er").mkdir(parents=True)
        for path in ("README.md", "deep/a.csv", "deep/er/b.txt"):
            (self.world / path).write_text(f"{path}\n" * 5)
        self.home.mkdir()
        self.witness = Witness.open(self.world, self.home)
        self.steps = 0

    def step(self) -> dict[str, Any]:
        self.steps += 1
        line = self.witness.step(self.steps)
        assert line.pop("step") == self.steps
        return line

    def run(self, command: str) -> dict[str, Any]:
        """A command of the agent, in its home; W is the world. The line for it."""
        environ = {**os.environ, "W": str(self.world)}
        subprocess.run(
            ["bash", "-c", command], cwd=self.home, env=environ, check=False, timeout=30, capture_output=True
        )
        return self.step()

    def tool(self, text: str = SCRIPT, name: str = "x.sh") -> None:
        """A tool, in a step of its own."""
        path = self.home / "tools" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        self.step()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.witness.close()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_first_line_tells_what_is_seen(place: Place) -> None:
    """Both are; and nothing has happened, although the witness itself has listed every directory."""
    assert place.witness.first() == {"version": 1, "world": True, "home": True, "why": {}}
    assert place.step() == EMPTY


def test_reads_and_listings_of_the_world_are_seen(place: Place) -> None:
    """Bytes that were read, and directories that were listed; not what was only looked at, opened or echoed."""
    for command, read, listed in (
        ("cat $W/README.md", ["README.md"], []),
        ("head -n1 <$W/deep/a.csv", ["deep/a.csv"], []),
        ("cp $W/deep/er/b.txt .; rm b.txt", ["deep/er/b.txt"], []),
        ("ls $W/deep", [], ["deep"]),
        ("echo $W/deep/er/*", [], ["deep/er"]),
        ("find $W", [], ["", "deep", "deep/er"]),
        ("grep -r nothing $W", ["README.md", "deep/a.csv", "deep/er/b.txt"], ["", "deep", "deep/er"]),
        ("stat $W/README.md; test -e $W/deep/a.csv; wc -c $W/README.md; : <$W/README.md", [], []),
        ("echo $W/README.md /world/README.md; ls -d $W", [], []),
        ("cat $W/none", [], []),
    ):
        line = place.run(command)
        assert line["read"] == [f"/world/{path}" for path in read], command
        assert line["listed"] == [f"/world/{path}".rstrip("/") for path in listed], command


def test_a_read_through_memory_is_not_seen(place: Place) -> None:
    """The bound of what inotify tells, which the documentation names: mmap(2)."""
    code = "import mmap, sys; f = open(sys.argv[1], 'rb'); print(mmap.mmap(f.fileno(), 0, prot=1)[:])"
    ended = subprocess.run(
        [sys.executable, "-c", code, place.world / "README.md"], capture_output=True, text=True, check=True
    )
    assert "README.md" in ended.stdout
    assert place.step() == EMPTY


def test_what_is_read_in_the_background_counts_for_the_next_line(place: Place) -> None:
    """And what comes after the last command has a line of its own."""
    child = subprocess.Popen(["sh", "-c", f"read go; cat {place.world}/README.md"], stdin=subprocess.PIPE)
    assert place.step() == EMPTY
    child.communicate(b"go\n", timeout=20)
    line = place.witness.step(None)
    assert (line["step"], line["read"]) == (None, ["/world/README.md"])


def test_a_tool_that_runs_is_seen_with_its_digest(place: Place) -> None:
    """Step after step, and our own reading of it is never taken for the agent's."""
    place.tool()
    for _ in range(5):
        assert place.run("tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(SCRIPT)}
        assert place.step() == EMPTY
        place.run("echo >>tools/other")  # which has us read that file
        assert place.step() == EMPTY


def test_a_tool_that_does_not_run_is_not_seen(place: Place) -> None:
    """Its name in a command, its writing and its mode are no reads."""
    place.tool()
    for command in (
        "true || tools/x.sh",
        "echo tools/x.sh; ls -l tools; stat tools/x.sh; test -x tools/x.sh",
        "chmod 700 tools/x.sh",
        "echo >>tools/x.sh",
        "printf 'echo two\\n' >tools/x.sh; true || tools/x.sh",
        "mv tools/x.sh tools/y.sh",
        "touch tools/y.sh; rm tools/y.sh",
    ):
        assert place.run(command)["tools"] == {}, command


def test_the_digest_is_of_the_bytes_that_were_read(place: Place) -> None:
    """Before a change, after it, and between two changes of one step, where nobody can tell."""
    two, tool = "#!/bin/sh\necho two\n", "/home/agent/tools/x.sh"
    (place.home / "two").write_text(two)
    write_two = "cat two >tools/x.sh"
    for command, expected in (
        ("tools/x.sh", digest(SCRIPT)),
        (f"tools/x.sh; {write_two}", digest(SCRIPT)),
        (f"{write_two}; tools/x.sh", digest(two)),
        (f"tools/x.sh; {write_two}; tools/x.sh", digest(two)),
        ("tools/x.sh; rm tools/x.sh", digest(SCRIPT)),
        ("cp two tools/new; chmod +x tools/new; mv tools/new tools/x.sh; tools/x.sh", digest(two)),
        (f"{write_two}; tools/x.sh; echo >>tools/x.sh", None),
        (f"{write_two}; tools/x.sh; rm tools/x.sh", None),
    ):
        place.tool()
        assert place.run(command)["tools"].get(tool, "not seen") == expected, command


def test_changes_in_the_home_are_seen(place: Place) -> None:
    """Files that were written, made or removed; not those that stayed as they were."""
    place.tool()
    (place.home / "old.md").write_text("x")
    place.step()
    for command, changed in (
        ("echo a >LOG.md", ["LOG.md"]),
        ("echo b >>LOG.md; cat LOG.md", ["LOG.md"]),
        ("rm old.md; mv LOG.md MAP.md", ["LOG.md", "MAP.md", "old.md"]),
        ("sed -i s/one/two/ tools/x.sh; ls tools", None),
        ("mkdir tools/sub; cp MAP.md tools/sub/y", None),
        (": >>MAP.md; touch MAP.md; chmod 600 MAP.md; cat MAP.md", []),
        ("echo a >/tmp/elsewhere-$$; rm /tmp/elsewhere-$$", []),
    ):
        seen = place.run(command)["changed"]
        if changed is None:
            wanted = "tools/sub/y" if "sub" in command else "tools/x.sh"
            assert f"/home/agent/{wanted}" in seen, command
        else:
            assert seen == [f"/home/agent/{path}" for path in changed], command


def test_a_write_through_memory_changes_a_tools_digest(place: Place) -> None:
    """No event tells of it: what was read is then unknown, and the next reader is told right."""
    place.tool()
    two = SCRIPT.replace("one", "six")
    code = """if True:
        import mmap, sys
        file = open("tools/x.sh", "r+b")
        memory = mmap.mmap(file.fileno(), 0)
        print("mapped", flush=True)
        input()
        memory[:] = sys.argv[1].encode()
        print("written", flush=True)
        input()"""
    writer = subprocess.Popen(
        [sys.executable, "-c", code, two], cwd=place.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdin
        assert writer.stdout
        assert writer.stdout.readline() == "mapped\n"
        place.step()
        before = os.stat(place.home / "tools/x.sh").st_mtime_ns
        writer.stdin.write("\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "written\n"
        if os.stat(place.home / "tools/x.sh").st_mtime_ns == before:  # as on tmpfs
            writer.communicate("\n", timeout=20)
            pytest.skip("this file system keeps no time of such writes")
        line = place.run("cat tools/x.sh")  # it cannot be run: the writer has it open
        assert line["tools"] == {"/home/agent/tools/x.sh": None}
        assert line["changed"] == ["/home/agent/tools/x.sh"]
        assert place.run("cat tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(two)}
        writer.communicate("\n", timeout=20)
    assert place.run("tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(two)}


def test_tools_that_come_later_are_watched(place: Place) -> None:
    """The directory and those in it, removed and made again, or moved to the place."""
    for command in ("mkdir tools", "rm -r tools; mkdir -p tools/a", "mv tools was; mkdir -p new/a; mv new tools"):
        place.run(command)
        place.run(
            "printf '#!/bin/sh\\necho one\\n' >tools/x.sh; cp tools/x.sh tools/a; chmod +x tools/x.sh tools/*/x.sh"
        )
        assert place.run("tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(SCRIPT)}, command
    assert place.run("tools/a/x.sh")["tools"] == {"/home/agent/tools/a/x.sh": digest(SCRIPT)}
    assert place.run("was/x.sh")["tools"] == {}


def test_what_came_with_a_directory_is_told(place: Place) -> None:
    """It has changed; and that reads before the watch began may have been missed is told, too."""
    (place.home / "new").mkdir()
    (place.home / "new/x.sh").write_text(SCRIPT)
    place.step()
    line = place.run("mv new tools")
    assert line["late"] == ["/home/agent/tools"]
    assert "/home/agent/tools/x.sh" in line["changed"]
    assert place.run("sh tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(SCRIPT)}


def test_links_are_not_followed(place: Place, tmp_path: Path) -> None:
    """A tools directory that leads out is not watched, and what a link in it leads to is not read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SCRIPT)
    line = place.run(f"ln -s {outside} tools")
    assert list(line["unwatched"]) == ["/home/agent/tools"]
    assert place.run("cat tools/secret")["tools"] == {}
    place.run(f"rm tools; mkdir tools; ln -s {outside}/secret tools/link; ln -s {outside} tools/away")
    assert place.run("cat tools/link tools/away/secret") == EMPTY


def test_odd_files_stop_nothing(place: Place) -> None:
    """A pipe, a socket, a device, a name that is no text, a huge file, one that nobody may read."""
    place.tool()
    place.run("mkfifo tools/pipe; printf x >$'tools/\\xff\\n'; truncate -s 1G tools/huge; ln tools/x.sh tools/hard")
    line = place.run("head -c1 tools/huge; cat tools/*$'\\n'; tools/hard")
    odd = os.fsdecode(b"/home/agent/tools/\xff\n")
    assert line["tools"] == {
        "/home/agent/tools/huge": None,
        odd: digest("x"),
        "/home/agent/tools/hard": digest(SCRIPT),
    }


def test_more_than_is_watched_is_told(place: Place) -> None:
    """Bounds on directories and files; the others go on."""
    place.tool()
    line = place.run("mkdir -p tools/{1..80}; for i in {1..1100}; do : >tools/f$i; done")
    assert len(line["unwatched"]) == home_watch.MOST_TOLD
    assert place.run("tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(SCRIPT)}


def test_dropped_events_are_told(place: Place) -> None:
    """The kernel keeps 16,384: when more come while nobody takes them in, the line says so, and the next is whole."""
    place.tool()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with place.witness._lock:  # the thread takes nothing in meanwhile
        subprocess.run(
            ["sh", "-c", f"i=0; while [ $i -lt {limit} ]; do : >a; : >b; i=$((i+1)); done"],
            cwd=place.home,
            check=True,
            timeout=60,
        )
    assert place.step()["overflow"]
    assert not place.run("tools/x.sh")["overflow"]
    assert place.run("tools/x.sh")["tools"] == {"/home/agent/tools/x.sh": digest(SCRIPT)}


def test_many_reads_lose_nothing(place: Place, tmp_path: Path) -> None:
    """More reads in one step than the kernel keeps events."""
    world = tmp_path / "large"
    world.mkdir()
    for number in range(200):
        (world / f"{number}").write_text("x" * 10)
    witness = Witness.open(world, None)
    subprocess.run(["sh", "-c", f"for i in $(seq 90); do cat {world}/* >/dev/null; done"], check=True, timeout=60)
    line = witness.step(1)
    witness.close()
    assert len(line["read"]) == 200
    assert not line["overflow"]


def test_a_busy_background_does_not_hold_up_a_step(place: Place) -> None:
    """It writes and reads tools for ever: a step still ends, and no digest is told that never was."""
    place.tool()
    texts = [f"#!/bin/sh\necho {word}\n" for word in ("one", "two")]
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            for text in texts:
                new = place.home / "tools/new"
                new.write_text(text)
                new.rename(place.home / "tools/x.sh")
                (place.home / "tools/x.sh").read_text()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        allowed = {None, *map(digest, texts)}
        began = time.monotonic()
        for _ in range(50):
            assert place.step()["tools"].get("/home/agent/tools/x.sh") in allowed
        assert time.monotonic() - began < 20
    finally:
        stop.set()
        thread.join()


def test_check_finds_an_engine_elsewhere(place: Place) -> None:
    """A listing in the container that the host does not see: the world is not seen, and the file says why."""
    place.witness.check(lambda: os.listdir(place.world))
    assert place.witness.first()["world"] is True
    assert place.step() == EMPTY
    place.witness.check(lambda: None)
    first = place.witness.first()
    assert first["world"] is False
    assert "another kernel" in first["why"]["world"]
    assert place.run("cat $W/README.md")["read"] == []


def test_what_cannot_be_watched_is_told(tmp_path: Path) -> None:
    """No error: a first line that says why."""
    (tmp_path / "file").write_text("")
    witness = Witness.open(tmp_path / "none", tmp_path / "file")
    first = witness.first()
    assert (first["world"], first["home"]) == (False, False)
    assert "No such file or directory" in first["why"]["world"]
    assert "Not a directory" in first["why"]["home"]
    assert witness.step(1) == {"step": 1, **EMPTY}
    witness.close()
    witness.close()
    witness = Witness.open(tmp_path, None)
    assert "home" in witness.first()["why"]
    witness.close()


def test_a_closed_witness_leaves_nothing_open(tmp_path: Path) -> None:
    """No descriptor and no thread, after many runs."""
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        made = Place(root)
        made.tool()
        shutil.rmtree(made.home / "tools")
        made.witness.close()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


IDENTITY: Identity = (1, 1, 1, 1)


@each_row(
    "events, expected",
    [
        ("r", "old"),
        ("rr", "old"),
        ("cr", "new"),
        ("rc", "old"),
        ("rcr", "new"),
        ("crc", None),
        ("rcrc", "old"),
        ("ccr", "new"),
    ],
)
def test_which_content_was_read(events: str, expected: str | None) -> None:
    """r: read, c: change. The digest before the step and after it are known."""
    tool = ToolFile("old", IDENTITY, 0)
    for event in events:
        (tool.read if event == "r" else tool.change)()
    changed = "c" in events
    assert tool.content_read("new" if changed else "old", IDENTITY) == expected


@given(events=st.lists(st.one_of(st.none(), st.text("ab", min_size=1, max_size=2)), max_size=8), before=st.text("ab"))
def test_a_told_digest_is_of_a_content_that_was_read(events: list[str | None], before: str) -> None:
    """Whatever the order of reads (None) and writes: what is told was read, and None is told only between writes."""
    tool, content, read = ToolFile(before, IDENTITY, 0), before, []
    for event in events:
        if event is None:
            tool.read()
            read.append(content)
        else:
            tool.change()
            content = event
    assert tool.was_read == bool(read)
    if read:
        assert tool.content_read(content, IDENTITY) in {None, *read}
