"""What is cut down in a long conversation, and what never is."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.loop.arguments import problem_with_input
from infra.cell.loop.context.clip import clip
from infra.cell.loop.context.spill import path_of
from infra.cell.loop.context.tokens import bytes_of
from infra.cell.loop.context.trim import (
    END_CHARS,
    KEPT_LARGE,
    KEPT_STEPS,
    LEAST_CHARS,
    MOST_LARGE,
    Cut,
    choose,
    choose_large,
    made,
    trimmed,
    whereabouts,
)
from infra.cell.loop.file_tools import WRITE_FILE
from infra.shared.conversation import Message, Text, ToolResult, ToolUse

OPENING = (
    Message("user", (Text("Continue."),)),
    Message("assistant", (ToolUse("opening-1", "read_file", {"path": "y" * 2000}),)),
    Message("user", (ToolResult("opening-1", "y" * 9000),)),
)
LENGTHS = st.sampled_from((0, 10, LEAST_CHARS, LEAST_CHARS + 1, 6000))
TEXTS = st.builds(lambda letter, length: letter * length, st.sampled_from(("a", "é", "\n", "\0", "\ud800")), LENGTHS)
CALLS = st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), min_size=1, max_size=3)
STEPS = st.lists(CALLS, max_size=8)


def conversation(steps: Sequence[Sequence[tuple[str, str, bool]]]) -> list[Message]:
    """Steps of calls: what is written, what came of it, and whether that is an error."""
    messages = list(OPENING)
    for at, calls in enumerate(steps):
        uses = [
            ToolUse(f"{at}-{n}", "write_file", {"path": "a", "content": given}) for n, (given, _, _) in enumerate(calls)
        ]
        results = [ToolResult(f"{at}-{n}", came, error) for n, (_, came, error) in enumerate(calls)]
        messages += [Message("assistant", (Text("so"), *uses)), Message("user", (*results, Text("steering")))]
    return messages


def size_of(messages: Sequence[Message]) -> int:
    return sum(map(bytes_of, messages))


def cut_to(messages: list[Message], target: int) -> tuple[list[Message], int]:
    """The conversation after one round of cutting, and the size that was foretold."""
    cuts = choose(messages, size_of(messages), target, len(OPENING), KEPT_STEPS)
    return made(messages, cuts.chosen, whereabouts), cuts.size


@given(STEPS, st.floats(0, 1.1))
def test_the_mark_is_met_where_it_can_be_and_everything_stays_in_its_place(
    steps: list[list[tuple[str, str, bool]]], share: float
) -> None:
    """Every call keeps its result, every result its error, every string a string that the tool's schema allows."""
    messages = conversation(steps)
    target = int(size_of(messages) * share)
    after, foretold = cut_to(messages, target)
    least, _ = cut_to(messages, 0)

    assert size_of(after) == foretold <= size_of(messages)
    assert foretold <= max(target, size_of(least))
    assert [message.role for message in after] == [message.role for message in messages]
    for old, new in zip(messages, after, strict=True):
        for was, now in zip(old.content, new.content, strict=True):
            match was, now:
                case ToolUse(), ToolUse():
                    assert now._replace(input=was.input) == was
                    assert now.input["path"] == was.input["path"]
                    assert problem_with_input(WRITE_FILE, now.input) == problem_with_input(WRITE_FILE, was.input)
                case ToolResult(), ToolResult():
                    assert now._replace(content=was.content) == was
                case _:
                    assert now == was


@given(STEPS, st.floats(0, 1.1))
def test_the_opening_and_the_last_steps_are_left_alone(steps: list[list[tuple[str, str, bool]]], share: float) -> None:
    """And so is all that stands before the first thing that was cut: the provider has it in its cache."""
    messages = conversation(steps)
    cuts = choose(messages, size_of(messages), int(size_of(messages) * share), len(OPENING), KEPT_STEPS)
    after = made(messages, cuts.chosen, whereabouts)
    first = min((cut.message for cut in cuts.chosen), default=len(messages))
    assert first >= len(OPENING)
    assert all(now is was for now, was in zip(after[:first], messages[:first], strict=True))
    kept = 2 * min(KEPT_STEPS, len(steps))
    assert after[len(after) - kept :] == messages[len(messages) - kept :]


@given(STEPS, st.floats(0, 1.1))
def test_nothing_is_cut_twice(steps: list[list[tuple[str, str, bool]]], share: float) -> None:
    """The same again changes nothing more; however little is asked for, what was cut stays as it is."""
    messages = conversation(steps)
    target = int(size_of(messages) * share)
    once, _ = cut_to(messages, target)
    assert cut_to(once, target)[0] == once
    cuts = choose(messages, size_of(messages), target, len(OPENING), KEPT_STEPS).chosen
    again = {(cut.message, cut.block) for cut in choose(once, size_of(once), 0, len(OPENING), KEPT_STEPS).chosen}
    assert again.isdisjoint((cut.message, cut.block) for cut in cuts)


def test_what_was_cut_says_how_long_it_was_and_where_it_is() -> None:
    """Two ends are left, of a result and of a long argument alike."""
    text = f"begin{'x' * 5000}end"
    messages = conversation([[(text, text, True)], *[[("", "", False)]] * KEPT_STEPS])
    after, _ = cut_to(messages, 0)
    [_, use] = after[3].content
    result, _ = after[4].content
    assert isinstance(use, ToolUse)
    assert isinstance(result, ToolResult)
    for cut in (use.input["content"], result.content):
        assert cut.startswith("begin")
        assert cut.endswith("end")
        assert f"{len(text)} characters were here" in cut
        assert path_of(text.encode()) in cut
        assert len(cut) < 2 * END_CHARS + 250
    assert result.is_error


def test_what_is_old_and_long_goes_first() -> None:
    """By bytes times age: neither an old short one nor a young long one comes before what is both."""
    lengths = [9000, 20_000, 10_000, 2000]
    messages = conversation([*([("", "x" * n, False)] for n in lengths), *[[("", "", False)]] * KEPT_STEPS])
    size, order = size_of(messages), []
    for target in range(size, 0, -500):
        chosen = choose(messages, size, target, len(OPENING), KEPT_STEPS).chosen
        order += [(cut.message - 4) // 2 for cut in chosen if (cut.message - 4) // 2 not in order]
    assert order == [1, 0, 2, 3]


def test_strings_in_lists_and_objects_are_cut_too() -> None:
    """Whatever the model gave a tool; not below a depth that no tool has."""
    deep: object = "x" * 9000
    for _ in range(20):
        deep = [deep]
    given = {"edits": [{"old": "y" * 9000, "at": 3}], "deep": deep, "flag": True}
    messages = [*OPENING, Message("assistant", (ToolUse("1", "edit", given),)), Message("user", (ToolResult("1", ""),))]
    cuts = choose(messages, size_of(messages), 0, len(OPENING), 0)
    use = made(messages, cuts.chosen, whereabouts)[3].content[0]
    assert isinstance(use, ToolUse)
    assert len(json.dumps(use.input["edits"])) < 600
    assert use.input["edits"][0]["at"] == 3
    assert (use.input["deep"], use.input["flag"]) == (deep, True)
    assert trimmed(use, whereabouts) == use


def test_a_text_that_could_not_be_kept_says_so() -> None:
    """It is cut all the same."""
    messages = conversation([[("", "x" * 9000, False)], *[[("", "", False)]] * KEPT_STEPS])
    cuts = choose(messages, size_of(messages), 0, len(OPENING), KEPT_STEPS)
    result = made(messages, cuts.chosen, lambda text: "")[4].content[0]
    assert isinstance(result, ToolResult)
    assert "could not be kept" in result.content


def clipped(at: int) -> str:
    """A result as the tool bash gives it when an output is too long."""
    whole = "".join(f"line {number} of {at}\n" for number in range(2000))
    return f"{clip(whole, 9000)}\n[the whole: {path_of(whole.encode())}]\n[exit status 0]"


def test_of_many_results_that_were_cut_only_the_last_are_shown_as_they_came() -> None:
    """Their wholes lie in files already. A few stay, and so does what is long and whole."""
    whole = "x" * (LEAST_CHARS + 1)
    for count in range(MOST_LARGE + 3):
        messages = conversation([[("", clipped(at), False), ("", whole, False)][: 1 + (not at)] for at in range(count)])
        cuts = large_in(messages)
        assert len(cuts) == (0 if count <= MOST_LARGE else count - KEPT_LARGE)
        after = made(messages, cuts, lambda text: "nothing is kept again")
        assert large_in(after) == ()
        results = [block for message in after for block in message.content if isinstance(block, ToolResult)]
        came, others = [*results[1:2], *results[3:]], results[2:3]
        assert [len(result.content) < LEAST_CHARS for result in came] == [at < len(cuts) for at in range(count)]
        assert all(result.content == whole for result in others)
        for at, result in enumerate(came):
            assert clipped(at).rpartition("[the whole: ")[2].partition("]")[0] in result.content


def large_in(messages: Sequence[Message]) -> tuple[Cut, ...]:
    return choose_large(messages, [bytes_of(message) for message in messages], len(OPENING))


def test_less_is_left_out_than_would_be_sent_anew() -> None:
    """What follows a change is not in the provider's cache: few large results in a long conversation stay, until some
    follow each other."""
    between = [[("", "y" * 1400, False)]] * 9
    sparse = [step for at in range(10) for step in ([("", clipped(at), False)], *between)]
    assert large_in(conversation(sparse)) == ()
    dense = conversation([*sparse, *([("", clipped(at), False)] for at in range(5))])
    cuts = large_in(dense)
    assert len(cuts) == 3
    assert {cut.message for cut in cuts} == {len(dense) - 2 * step + 1 for step in (3, 4, 5)}


def test_what_only_looks_as_if_it_was_cut_stays() -> None:
    """A file or an output that quotes such a note lies nowhere whole, nor what a full disk did not take; what is cut of
    it later, for room, is kept then."""
    quoted = "a record:\n" + clip("x" * 9000, 5000) + "\n[the whole: logs/outputs/0123456789abcdef.txt]\n" + "y" * 500
    unkept = clip("x" * 9000, 5000) + "\n[the rest could not be kept: No space left on device]\n[exit status 0]"
    for text in (quoted, unkept):
        messages = conversation([[("", text, False)] for _ in range(MOST_LARGE + 2)])
        assert large_in(messages) == ()
        block = trimmed(ToolResult("1", text), lambda text: "logs/outputs/of-this.txt")
        assert isinstance(block, ToolResult)
        assert "the whole is in logs/outputs/of-this.txt" in block.content


def test_events_of_large_outputs_are_cut_the_same_way() -> None:
    """And name where the whole is, as before."""

    def event(at: int) -> Message:
        fields = {"artifact": f"logs/outputs/{at:016}.txt", "stdout": clip("a long line\n" * 2000, 9000)}
        return Message("user", (Text(json.dumps({"protocol": 1, "events": [fields]}, separators=(",", ":"))),))

    messages = [*OPENING, *(each for at in range(6) for each in (Message("assistant", (Text("[]"),)), event(at)))]
    after = made(messages, large_in(messages), whereabouts)
    sizes = [len(block.text) for message in after[4::2] for block in message.content if isinstance(block, Text)]
    assert [size < LEAST_CHARS for size in sizes] == [True] * 4 + [False] * 2
    assert all(f"logs/outputs/{at:016}.txt" in str(message) for at, message in enumerate(after[4::2]))
