"""A desk whose records the tests write as the keep does, and receivers that note what they get."""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from host.notify.delivery import Attempt, deliver
from host.notify.events import Fact, observe
from host.notify.look import History, Looker, commits_since
from host.notify.sender import Kept, Sender
from host.notify.state import Memory, Store
from host.paths import AgentPaths
from infra.keep.ledger.ledger import Ledger, Opened, Settled
from infra.shared import approvals, comms, questions, watcher_file
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.notify_settings import KINDS, NotifySettings
from infra.shared.questions import Question
from infra.shared.repository.page import write_reports
from infra.shared.repository.page_text import USUAL, ReportEntry
from infra.shared.settings import BudgetSettings
from infra.shared.watcher_file import WatcherFile
from tests.host.desk import Desk

AT = "2026-01-31T10:42:12.345Z"
NOW = 1_769_856_132.0
DAY = "2026-01-31"


class Records:
    """The keep's records of the desk's agent."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.home = desk, desk.home()
        self.commits: History = commits_since
        """How main's history is read."""
        self.looker = Looker(self.home, BudgetSettings(), lambda text: None, lambda *words: self.commits(*words))
        self.senders: list[Sender] = []

    def sender(self, notify: NotifySettings, *more: Any, **named: Any) -> Sender:
        self.senders.append(sender(self.home, notify, *more, **named))
        return self.senders[-1]

    def close(self) -> None:
        for each in self.senders:
            each.close()

    def begin(self) -> None:
        """As `up` does before it starts the agent."""
        self.seen = self.looker.begin()
        Store(self.home).write(Memory(self.seen))

    def news(self, now: float = NOW) -> list[Fact]:
        self.seen, found = observe(self.seen, self.looker.look(self.seen, now), KINDS, now)
        return list(found)

    def watcher(self, **fields: Any) -> None:
        state = WatcherFile(
            **({"phase": watcher_file.RUNNING, "since": AT, "branch": "main", "commit": "0" * 40} | fields)
        )
        write_whole(self.home.places.watcher_state, watcher_file.encode(state))

    def asks(self, tool: str = "bash", given: dict[str, Any] | None = None, id: str = "0123456789abcdef") -> None:
        given = given or {"command": "true"}
        question = Question(
            id=id, call=approvals.call_hash(tool, given), tool=tool, input=given, why="rule 1", branch="main",
            commit="0" * 40, asked_at=AT, report="0" * 32, told=True,
        )  # fmt: skip
        os.makedirs(self.home.places.questions, mode=0o700, exist_ok=True)
        write_whole(f"{self.home.places.questions}/{id}.json", questions.encode(question))

    def directive(self, text: str) -> str:
        self.desk.done("tell", text)
        return comms.open_directives(self.desk.page())[-1].id

    def reports(self, title: str, text: str = "Words.", ticks: Sequence[str] = ()) -> None:
        """As the git door writes it."""
        entry = ReportEntry(timestamp(time.time()), f"main@{'0' * 12} {title}", text)
        git = self.desk.git()
        write_reports(git, "report", [entry], [os.urandom(16).hex()], tuple(ticks), USUAL)

    def call(self, id: str, worst_usd: float, usd: float | None, day: str = DAY, unit: str = "u") -> None:
        """A line of the ledger for a call's beginning and, unless `usd` is None, one for its end."""
        ledger = Ledger(self.home.places.ledger)
        common: dict[str, Any] = {"time": f"{day}T10:00:00.000Z", "day": day, "id": id, "unit": unit}
        common |= {"provider": "anthropic", "model": "m"}
        ledger.append(Opened(**common, worst_usd=worst_usd, worst_tokens=10))
        if usd is not None:
            tokens: dict[str, Any] = dict.fromkeys(
                ("input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens"), 1
            )
            ledger.append(Settled(**common, **tokens, usd=usd, duration_ms=1))
        ledger.close()


def received(path: Path) -> list[dict[str, Any]]:
    """What a command noted."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Receiver:
    """A web server on loopback that answers with these statuses in turn, the last one for ever; 0 never answers."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.bodies, self.paths = list(statuses), list[dict[str, Any]](), list[str]()
        self.over = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                receiver.paths.append(self.path)
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                if not status:
                    receiver.over.wait(60)
                    return
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?token=sesame"


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    receiver = Receiver(*statuses)
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        receiver.server.shutdown()
        thread.join()
        receiver.server.server_close()


class Clock:
    """Real time, which a test may push on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def sender(
    home: AgentPaths,
    notify: NotifySettings,
    clock: Callable[[], float] = time.time,
    store: Kept | None = None,
    seconds: float = 20.0,
    begun: Callable[[Attempt], Attempt] = lambda attempt: attempt,
) -> Sender:
    """As `minifram notify` makes it, of what is on the disk."""
    memory, _ = Store(home).take()

    def begin(channel: str, body: str) -> Attempt:
        return begun(deliver(notify, channel, body, {"PATH": os.environ["PATH"]}, seconds))

    looker = Looker(home, BudgetSettings(), lambda text: None)
    return Sender(home.agent, notify, memory, store or Store(home), looker, begin, lambda text: None, clock)


def step_until(sender: Sender, condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the deadline passed"
        sender.step()
        time.sleep(0.01)
