"""The worker that reads a page: it may do nothing else, and one that fails costs one page."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.text import MOST_LINKS, Content, Link
from infra.keep.web_door.worker import SECONDS, Readers, normalised
from infra.shared.paths import ROOT
from tests.keep.supervision.agents import within
from tests.keep.web_door.came import came


def with_readers(act: Callable[[Readers], Awaitable[None]], seconds: float = SECONDS) -> None:
    async def run() -> None:
        readers = Readers(seconds)
        try:
            readers.start()
            await act(readers)
        finally:
            readers.close()

    asyncio.run(run())


async def text_of(readers: Readers, body: bytes, content_type: str = "text/html") -> str:
    return (await readers.read(came(body, content_type), False)).markdown


def test_each_page_has_a_worker_of_its_own() -> None:
    """Which is started ahead, and is gone after it; what cannot be read says why."""

    async def act(readers: Readers) -> None:
        pids = {readers.start().pid}
        for number in range(3):
            assert await text_of(readers, b"<p>%d" % number) == str(number)
            pids.add(readers.start().pid)
        assert len(pids) == 4
        assert all(_is_gone(pid) for pid in pids - {readers.start().pid})
        texts = await asyncio.gather(*(text_of(readers, b"<p>%d" % number) for number in range(5)))
        assert texts == [str(number) for number in range(5)]
        with pytest.raises(WebRefusal, match="it is damaged") as refused:
            await text_of(readers, b"%PDF-", "application/pdf")
        assert refused.value.error.type == "execution_error"

    with_readers(act)


def test_a_worker_that_dies_costs_one_page() -> None:
    """None, where it dies before."""

    async def act(readers: Readers) -> None:
        pid = readers.start().pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert await text_of(readers, b"<p>two") == "two"
        pid = readers.start().pid
        os.kill(pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(text_of(readers, b"<p>three"))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WebRefusal, match="could not be read"):
            await reading
        assert await text_of(readers, b"<p>four") == "four"

    with_readers(act)


def test_a_worker_that_is_late_or_not_waited_for_is_killed() -> None:
    async def act(readers: Readers, is_left: bool) -> None:
        pid = readers.start().pid
        os.kill(pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(text_of(readers, b"<p>two"))
        await asyncio.sleep(0)
        if is_left:
            reading.cancel()
        with pytest.raises(asyncio.CancelledError if is_left else WebRefusal):
            await reading
        assert _is_gone(pid)

    with_readers(partial(act, is_left=False), seconds=0.2)
    with_readers(partial(act, is_left=True))


_PROBE = """
import json, os, resource, socket
from infra.keep.web_door.text import PageBody
from infra.keep.web_door.worker_process import give_up, read, warm
from tests.keep.web_door.came import pdf
sample, page = pdf("A kettle."), "<p>\\u200b\\u4e2d<p style='opacity:0'>x".encode("gb18030")
warm()
give_up()
def tried(act):
    try:
        act()
    except Exception as error:
        return type(error).__name__
    return "done"
print(json.dumps({
    "file": tried(lambda: open("/etc/passwd")),
    "written": tried(lambda: os.open("/tmp/x", os.O_WRONLY | os.O_CREAT)),
    "socket": tried(socket.socket),
    "pipe": tried(os.pipe),
    "program": tried(lambda: __import__("subprocess").run(["true"])),
    "memory": tried(lambda: bytearray(1 << 30)),
    "limit": tried(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))),
    "page": tried(lambda: read(PageBody("html", page, "gbk", "http://a/", False))),
    "pdf": tried(lambda: read(PageBody("pdf", sample, "", "http://a/", False))),
}))
"""


def test_what_a_worker_may_not_do() -> None:
    """No file, no connection, no program, no more memory; and it reads all the same."""
    words = [sys.executable, "-c", _PROBE]
    if os.geteuid() == 0:  # root may raise its limits again; the door's user is not root
        words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *words]
    env = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    ran = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    refused = "OSError"
    assert json.loads(ran.stdout) == {
        **{"file": refused, "written": refused, "socket": refused, "pipe": refused, "program": refused},
        **{"memory": "MemoryError", "limit": "ValueError", "page": "done", "pdf": "done"},
    }


def test_a_worker_holds_nothing_but_its_pipes() -> None:
    """No descriptor of the door's is handed on; without memory it goes first, and it ends with its door."""

    async def act(readers: Readers) -> None:
        held = os.open("/etc/hostname", os.O_RDONLY)
        os.set_inheritable(held, True)
        try:
            assert await text_of(readers, b"<p>one") == "one"
            async with asyncio.timeout(20):
                while "Max open files            0" not in Path(f"/proc/{readers.start().pid}/limits").read_text():
                    await asyncio.sleep(0.01)
            assert Path(f"/proc/{readers.start().pid}/oom_score_adj").read_text() == "1000\n"
            found = {os.readlink(entry) for entry in Path(f"/proc/{readers.start().pid}/fd").iterdir()}
            assert {name.partition(":")[0] for name in found} <= {"pipe", "/dev/null"}
        finally:
            os.close(held)

    with_readers(act)
    program = (
        "import os\n"
        "from infra.keep.web_door.worker import Readers\n"
        "print(Readers().start().pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    env = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    within(10.0, lambda: _is_gone(int(ran.stdout)) or None, "the worker's end")


def test_the_worker_s_word_counts_no_more_than_the_page_s() -> None:
    """One that was taken over cannot say what it likes: its text is normalised, its addresses are of the web."""
    links = (Link("a\u200b", "https://a.example/"), Link("b", "javascript:x"), Link("c", "http://a/\u202e"))
    told = Content("t\n\u202eu", "x\x00y", links * MOST_LINKS, ("n\nm",) * 99)
    found = normalised(told)
    assert (found.title, found.markdown) == ("t u", "xy")
    assert set(found.links) == {Link("a", "https://a.example/")}
    assert len(found.links) <= MOST_LINKS
    assert len(found.notes) == 10
    assert found.notes[0] == "n m"


def _is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
