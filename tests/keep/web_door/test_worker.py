"""The worker that reads pages: it may do nothing else, and one that fails costs one page."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from infra.keep.web_door.content import MOST_LINKS, Content
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.worker import GROWN_BYTES, Readers, normalised
from infra.shared.paths import ROOT
from infra.shared.web import Link

HERE = "https://pages.example/"


def with_readers(act: Callable[[Readers], Awaitable[None]], **others: object) -> None:
    async def run() -> None:
        readers = Readers(**others)  # type: ignore[arg-type]
        try:
            await act(readers)
        finally:
            await readers.close()

    asyncio.run(run())


async def text_of(readers: Readers, body: bytes, content_type: str = "text/html") -> str:
    return (await readers.read(body, content_type, HERE, False)).markdown


def test_pages_are_read_one_after_the_other_by_one_worker() -> None:
    """What cannot be read says why, and costs no worker."""

    async def act(readers: Readers) -> None:
        texts = await asyncio.gather(*(text_of(readers, b"<p>%d" % number) for number in range(9)))
        assert texts == [str(number) for number in range(9)]
        first = readers.pid
        with pytest.raises(WebRefusal, match="as a PDF, it is damaged") as refused:
            await text_of(readers, b"%PDF-", "application/pdf")
        assert refused.value.error.type == "execution_error"
        assert await text_of(readers, b"<p>on") == "on"
        assert readers.pid == first

    with_readers(act)


def test_a_worker_that_dies_is_replaced() -> None:
    """Between two pages, and while it reads one."""

    async def act(readers: Readers) -> None:
        assert await text_of(readers, b"<p>one") == "one"
        first = readers.pid
        os.kill(first, signal.SIGKILL)
        while not _is_gone(first):
            await asyncio.sleep(0.01)
        assert await text_of(readers, b"<p>two") == "two"
        os.kill(readers.pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(text_of(readers, b"<p>three"))
        await asyncio.sleep(0)
        os.kill(readers.pid, signal.SIGKILL)
        with pytest.raises(WebRefusal, match="its parser failed"):
            await reading
        assert await text_of(readers, b"<p>four") == "four"

    with_readers(act)


def test_a_worker_that_has_grown_is_replaced_before_the_next_page() -> None:
    """Which is read all the same."""

    async def act(readers: Readers) -> None:
        pids = set[int]()
        for number in range(3):
            assert await text_of(readers, b"<p>%d" % number) == str(number)
            pids.add(readers.pid)
        assert len(pids) == 3

    with_readers(act, grown_bytes=1)


def test_a_door_that_was_large_once_keeps_its_worker() -> None:
    """The kernel tells a program that is started of the most memory that the one before it ever had."""

    async def act(readers: Readers) -> None:
        large = bytearray(GROWN_BYTES + (32 << 20))
        large[::4096] = b"x" * len(large[::4096])
        del large
        assert await text_of(readers, b"<p>one") == "one"
        first = readers.pid
        assert await text_of(readers, b"<p>two") == "two"
        assert readers.pid == first

    with_readers(act)


def test_a_worker_that_is_late_is_replaced() -> None:
    """And the answer that it would have given is not taken for another page's."""

    async def act(readers: Readers) -> None:
        assert await text_of(readers, b"<p>one") == "one"
        os.kill(readers.pid, signal.SIGSTOP)
        with pytest.raises(WebRefusal, match=r"within 0\.5 s"):
            await text_of(readers, b"<p>two")
        assert await text_of(readers, b"<p>three") == "three"

    with_readers(act, seconds=0.5)


def test_a_caller_who_leaves_takes_its_answer_along() -> None:
    """The next page's answer is its own."""

    async def act(readers: Readers) -> None:
        assert await text_of(readers, b"<p>one") == "one"
        os.kill(readers.pid, signal.SIGSTOP)
        reading = asyncio.ensure_future(text_of(readers, b"<p>two"))
        while not readers.is_busy:
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await text_of(readers, b"<p>three") == "three"

    with_readers(act)


_PROBE = """
import json, os, resource, socket, sys
from infra.keep.web_door.worker_process import give_up, warm
from infra.keep.web_door.bodies import read
from tests.keep.web_door.pdfs import pdf
sample, page = pdf("A kettle."), "<p>\\u200b\\u4e2d<style>p{color:#fff}</style>".encode("gb18030")
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
    "page": tried(lambda: read(page, "text/html; charset=gbk", "http://a/", False)),
    "pdf": tried(lambda: read(sample, "application/pdf", "http://a/", False)),
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
    """No descriptor of the door's is handed on."""

    async def act(readers: Readers) -> None:
        held = os.open("/etc/hostname", os.O_RDONLY)
        os.set_inheritable(held, True)
        try:
            assert await text_of(readers, b"<p>one") == "one"
            found = {os.readlink(entry) for entry in Path(f"/proc/{readers.pid}/fd").iterdir()}
            assert {name.partition(":")[0] for name in found} <= {"pipe", "socket", "/dev/null"}
            limits = Path(f"/proc/{readers.pid}/limits").read_text()
            assert "Max open files            0                    0" in limits
        finally:
            os.close(held)

    with_readers(act)


def test_the_worker_s_word_counts_no_more_than_the_page_s() -> None:
    """One that was taken over cannot say what it likes: its text is normalised, its addresses are of the web."""
    links = (Link("a\u200b", "https://a.example/"), Link("b", "javascript:x"), Link("c", "http://a/\u202e"))
    told = Content("t\n\u202eu", "x\x00y", links * MOST_LINKS, ("n\nm",) * 99, -5, 10**9)
    found = normalised(told)
    assert (found.title, found.markdown, found.hidden_chars) == ("t u", "xy", 0)
    assert set(found.links) == {Link("a", "https://a.example/")}
    assert len(found.links) <= MOST_LINKS
    assert len(found.notes) == 10
    assert found.notes[0] == "n m"


def _is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def test_ends_with_its_door(tmp_path: Path) -> None:
    """Nobody is left to read for."""
    program = (
        "import asyncio, os\n"
        "from infra.keep.web_door.worker import Readers\n"
        "async def main():\n"
        "    readers = Readers()\n"
        "    await readers.read(b'<p>a', 'text/html', 'http://a/', False)\n"
        "    print(readers.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    env = {"PYTHONPATH": ROOT, "PATH": os.environ["PATH"]}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    pid = int(ran.stdout)
    for _ in range(1000):
        if _is_gone(pid):
            return
        subprocess.run(["sleep", "0.01"], check=True)
    pytest.fail("the worker is still there after ten seconds")
