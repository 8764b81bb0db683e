"""Words and items go out of texts and events, and the chain of events stays one that can be verified."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.mind.event import as_line, each_event, hash_of
from infra.shared.mind.event_chain import verify
from infra.shared.mind.forgetting import Forgetting, forget_events, forgetting_of
from infra.shared.mind.heads import Head
from tests.shared.rows import each_row

SECRET = 'Käpt\'n "Blau" 7'


def chain_of(*texts: str) -> bytes:
    """A file of events, whole, each with one of the texts."""
    lines, previous = list[bytes](), "0" * 64
    for seq, text in enumerate(texts, 1):
        fields = {
            "timestamp": "2026-01-31T10:42:12.000Z",
            "event_type": "note",
            "context": {"intent": text},
            "execution": {},
            "outcomes": {"observations": f"it said: {text}"},
            "metadata": {},
            "seq": seq,
            "previous": previous,
        }
        previous = hash_of(fields)
        lines.append(as_line(fields | {"hash": previous}))
    return b"".join(lines)


@each_row(
    "text",
    [
        'before Käpt\'n "Blau" 7 after',
        'KÄPT\'N "BLAU" 7',
        'wrapped: Käpt\'n\n    "Blau"\t7.',
        json.dumps({"a": f"x {SECRET} y"}),
        json.dumps({"a": f"x {SECRET} y"}, ensure_ascii=False),
        json.dumps({"a": 'Käpt\'n\n"Blau" 7'}),
    ],
)
def test_words_go_however_they_are_spelled(text: str) -> None:
    """Small or capital, wrapped, or as JSON has them; what stands around them stays."""
    gone = forgetting_of([SECRET]).text(text.encode()).decode()
    assert "[forgotten]" in gone
    assert "blau" not in gone.lower()
    assert len(gone) > len("[forgotten]") or text.startswith("KÄPT")


def test_items_go_as_sections_and_nothing_else_does() -> None:
    """Byte for byte, also where the file is no UTF-8."""
    head, other = b"# Beliefs\nNext: B-000004\n\n## B-000001\nClaim: one\n\n", b"## B-0000021\nClaim: three\n"
    content = head + b"## B-000002\nClaim: \xff two\n\n" + other
    assert Forgetting((), ("B-000002",)).text(content) == head + other


@each_row("asked", [[], ["ab"], ["  "], ["forgotten"]])
def test_what_would_take_out_too_much_is_refused(asked: list[str]) -> None:
    with pytest.raises(ValueError, match=r"short|nothing was named|in the place"):
        forgetting_of(asked)


def test_events_are_chained_anew_and_verify_against_the_new_heads() -> None:
    """From the first that changed; those before keep their hashes, so evidence of them stays."""
    content = chain_of("one", f"the key is {SECRET}", "three", SECRET, "five")
    old = [json.loads(line)["hash"] for line in content.splitlines()]

    done = forget_events({"logs/events/1.jsonl": content}, forgetting_of([SECRET]))

    new = done.files["logs/events/1.jsonl"]
    assert done.changed == 2
    assert list(done.hashes) == old[1:]
    assert b"Blau" not in new
    heads = [Head("one", 1, old[0], ""), Head("all", 5, done.hashes[old[4]], "")]
    assert verify(each_event(new.splitlines(), "logs/events/1.jsonl"), heads) == []
    assert verify(each_event(new.splitlines(), "logs/events/1.jsonl"), [Head("all", 5, old[4], "")]) != []
    evidence = f"Evidence: hash:{old[2]}".encode()
    assert forgetting_of([SECRET]).text(evidence, done.hashes) == f"Evidence: hash:{done.hashes[old[2]]}".encode()


def test_what_was_rewritten_before_stays_found() -> None:
    """An event that does not fit does not come to fit by a forgetting; torn lines lose the words too."""
    lines = chain_of("one", "two", "three").splitlines()
    lines[1] = lines[1].replace(b"two", b"tWo of " + SECRET.encode())
    content = b"\n".join([*lines, b'{"timestamp":"2026 ' + SECRET.encode()])

    done = forget_events({"logs/events/1.jsonl": content}, forgetting_of([SECRET]))

    new = done.files["logs/events/1.jsonl"]
    assert b"Blau" not in new
    problems = [problem.words for problem in verify(each_event(new.splitlines(), "logs/events/1.jsonl"), [])]
    assert any("was rewritten" in words for words in problems)


@given(st.lists(st.sampled_from(["plain", "blue whale", "a Blue\nWhale", "whale"]), max_size=8))
def test_nothing_of_it_is_left_and_a_second_time_changes_nothing(texts: list[str]) -> None:
    """Over any events: what was told is gone, and forgetting once more is no news."""
    forgetting = forgetting_of(["blue whale"])
    done = forget_events({"a": chain_of(*texts)}, forgetting)
    after = done.files.get("a", chain_of(*texts))
    assert verify(each_event(after.splitlines(), "a"), []) == []
    assert not forgetting.is_in(after)
    assert forget_events({"a": after}, forgetting).files == {}
