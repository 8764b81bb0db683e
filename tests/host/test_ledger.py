"""`minifram ledger verify`: the PM checks the book of model calls."""

from __future__ import annotations

import os
from pathlib import Path

from infra.keep.ledger.ledger import Ledger
from tests.host.desk import Desk
from tests.keep.model_door.test_budget import an_end, an_opening


def test_a_whole_ledger_has_a_head(desk: Desk) -> None:
    """Also one of no line; its head is what the PM may note."""
    assert "none: no line yet" in desk.done("ledger", "verify").out
    ledger = Ledger(desk.home().places.ledger)
    for line in (an_opening("a"), an_end("a"), an_opening("b")):
        ledger.append(line)
    ledger.close()
    told = desk.done("ledger", "verify", "--json").json
    assert told["schema"] == "minifram.ledger/1"
    assert (told["lines"], told["calls"], told["findings"]) == (3, 2, [])
    said = desk.done("ledger", "verify").out
    assert told["head"] in said
    assert "3 lines, 2 calls" in said


def test_a_changed_ledger_is_a_finding(desk: Desk) -> None:
    """8, with the line; nothing is repaired."""
    path = Path(desk.home().places.ledger)
    ledger = Ledger(str(path))
    for line in (an_opening("a"), an_end("a", nano=900_000_000), an_opening("b")):
        ledger.append(line)
    ledger.close()
    cheaper = path.read_bytes().replace(b'"usd":0.9', b'"usd":0.1')
    path.write_bytes(cheaper)
    found = desk.run("ledger", "verify")
    assert found.code == 8
    assert "line 2 does not follow" in found.out
    assert desk.run("ledger", "verify", "--json").json["findings"]
    assert path.read_bytes() == cheaper


def test_what_is_no_file_and_other_words_are_refused(desk: Desk) -> None:
    """A pipe in its place keeps nobody waiting."""
    os.mkfifo(desk.home().places.ledger)
    piped = desk.run("ledger", "verify")
    assert piped.code == 6
    assert "is not a regular file" in piped.err
    assert desk.run("ledger", "burn").code == 2
    assert desk.run("ledger").code == 2
