"""No place in which the keep shows or keeps what others wrote shows a secret (`tests/shared/leaks.py`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from infra.cell.page import request_of
from infra.keep.boot_files import last_words
from infra.keep.git_door.ask import _text
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.report import _entry
from infra.keep.ledger.lines import Ledger
from infra.keep.ledger.prices import FREE
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.errors import shortened
from infra.keep.rehearsal.verdict import read_verdict
from infra.keep.settings.schema import Settings
from infra.keep.supervision.preparation import _installed
from infra.keep.web_door.app import line_of, shown
from infra.keep.web_door.refusal import failed
from infra.shared.conversation import Usage
from infra.shared.paths import ERROR_LOG, Paths
from infra.shared.safe_files import Below
from infra.shared.web import Fetch
from tests.shared.leaks import Place, counters_stay, examine, question


class Keep:
    """The places of the keep."""

    def __init__(self, place: Path) -> None:
        self.path = place
        paths = Paths(bot=f"{place}/bot", remote=f"{place}/remote", run=f"{place}/run", var=f"{place}/var")
        self.door = DoorContext(paths, Settings(), structlog.get_logger())
        free = {("p", "m"): FREE}
        self.ledger = place / "ledger"
        self.accounts = Accounts(Ledger(str(self.ledger)), 1, free, lambda: 1e9)
        self.places: dict[str, Place] = {
            "report": self.report,
            "question": lambda words, given: _text(question(words, given), ()),
            "ledger": self.call,
            "provider's error": lambda words, given: shortened(words, ()),
            "rehearsal": lambda words, given: str(
                read_verdict(json.dumps({"fit": None, "why": words, "transcript": words}).encode())
            ),
            "installer": lambda words, given: "\n".join(map(str, _installed(words.encode(), 1))),
            "a runner's last words": self.last_words,
            "web trace": self.traced,
            "web error": lambda words, given: str(shown(failed(words, words).error)),
        }

    def report(self, words: str, given: Mapping[str, Any]) -> str:
        made = request_of("main", "b" * 40, words, words)
        entry = _entry(self.door, made, "", "")
        return f"{entry.title}\n{entry.text}"

    def call(self, words: str, given: Mapping[str, Any]) -> str:
        asyncio.run(self.accounts.open("p", "m", Usage(), words))
        files = sorted(self.ledger.rglob("*")) if self.ledger.is_dir() else [self.ledger]
        return str(json.loads(files[-1].read_text().splitlines()[-1])["run"])

    def traced(self, words: str, given: Mapping[str, Any]) -> str:
        line = line_of(Fetch(words, run=words, step=words), 0.0, 1.0, 0, failed(words))
        return f"{line.url}\n{line.run_id}\n{line.step_id}"

    def last_words(self, words: str, given: Mapping[str, Any]) -> str:
        log = self.path / "c" / ERROR_LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(words)
        return last_words(Below(str(self.path)), "c", 0)


@pytest.mark.attack("S52")
def test_no_place_of_the_keep_shows_a_secret(tmp_path: Path) -> None:
    examine(Keep(tmp_path).places, 1)


def test_counters_of_tokens_are_shown_in_each_place(tmp_path: Path) -> None:
    counters_stay(Keep(tmp_path).places)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_place_of_the_keep_shows_a_secret_in_any_position(tmp_path: Path, seed: int) -> None:
    examine(Keep(tmp_path).places, seed, most=100)
