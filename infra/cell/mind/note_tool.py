"""The tool `note`: one statement that later runs shall know, with what bears it out.

The model says what and how it can be seen; the dispatcher runs the check, looks for the quote in the PM's words, and
knows what this run was shown. Nothing is remembered by a note alone: what becomes of it is decided from the events."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.loop.arguments import schema
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.loop import Acted, Event, Told
from infra.cell.loop.registry import SideEffect, Tool, ToolError
from infra.cell.loop.toolbox import Toolbox
from infra.cell.loop.ways import News
from infra.cell.mind.checks import control, named
from infra.cell.mind.claims import Origin
from infra.cell.mind.notes import (
    MOST_CHECK,
    MOST_NOTES,
    MOST_QUOTE,
    MOST_STATEMENT,
    MOST_SUBJECT,
    NOTE,
    NoteDetails,
    origin_of,
)
from infra.cell.mind.statements import key_of, normalised, problem_with_check, repeats, words_of
from infra.shared.conversation import ToolSpec
from infra.shared.text import one_line

CHECK_SECONDS = 60.0
END_SECONDS = 5.0
OUTPUT_CHARS = 2000
LEAST_QUOTED_WORDS = 2
"""One word stands in any directive."""
MOST_SHOWN_LINES = 20_000
BASH, RECALL = "bash", "recall"
"""The tool that searches the mind."""
_MIND = re.compile(
    r"/agent\b|/bot/mind\b|\b(?:memory|reflection|logs/(?:daily|weekly|events))/|\bbeliefs\b|\blong_term\b"
)
"""What an act names that may show something of it."""

NOTE_SPEC = ToolSpec(
    NOTE,
    "Note one fact for later runs, when you found out something that will still be true. One note is one statement "
    "about one subject, in words that say it all. Give check, a command that ends with status 0 only if the statement "
    "is true and that names what it says (its number, name or path; it is run again with that made something else, and "
    "has to fail then), or quote, words of the PM's that say it: then it is remembered. Without either it counts once "
    "another run finds the same by itself. What you were shown from memory needs no note, unless you checked it anew.",
    schema(
        {
            "subject": {"type": "string", "description": f"what it is about, at most {MOST_SUBJECT} characters"},
            "statement": {"type": "string", "description": f"one sentence, at most {MOST_STATEMENT} characters"},
        },
        {
            "check": {"type": "string", "description": "a command for bash, run now in the checkout"},
            "quote": {"type": "string", "description": "words that stand so in the directive or task of this run"},
        },
    ),
)
_WHAT_FOLLOWS = {
    Origin.DIRECTIVE: "the PM's word",
    Origin.CHECK: "borne out by its check",
    Origin.ACT: "by your word alone: it counts once another run finds the same by itself; a check or a quote helps",
    Origin.RECALL: "it says what this run was shown, so it counts for nothing: run a check to confirm it anew",
    Origin.PAGE: "this run has read the web: it stays a candidate until the PM or a check of another run says the same",
}
_TOO_WEAK = (
    "The check ended with 0 and bears out nothing: it names too little of what the statement says. Note the same once "
    "more with a check that looks for the number, name or path in it."
)
_ALWAYS = (
    "The check bears out nothing: it ended with 0 also with what it names of the statement made something else. Note "
    "the same once more with one that fails then (no '| head', no '!': what is missing is not seen by that)."
)


class NotesOfRun:
    """What one run was told and shown, and what it noted."""

    def __init__(self) -> None:
        self.noted = set[str]()
        """Keys of statements."""
        self.weakly = set[str]()
        """Those of them whose check was too weak: they may be noted once more, with a better one."""
        self._directed = ""
        self._shown = dict[str, frozenset[str]]()
        """Lines, with their words."""

    def directed(self, words: str) -> None:
        """The PM's words to this run: a directive or a task."""
        self._directed = f"{self._directed} {one_line(words)}"

    def shown(self, text: str) -> None:
        """Of the mind, by whatever way."""
        for line in text.splitlines():
            if len(self._shown) < MOST_SHOWN_LINES and line.strip() and line not in self._shown:
                self._shown[line] = frozenset(words_of(line))

    def seen(self, event: Event) -> None:
        """What the loop did: the PM's words that came meanwhile, and acts that showed something of the mind."""
        match event:
            case Told(steered=News(pm=words)) if words:
                self.directed(words)
            case Acted(call=call, result=result) if result.ok and (call.name == RECALL or _names_mind(call.args)):
                self.shown(result.payload)

    def says(self, quote: str) -> bool:
        """The PM's words hold these, but for blanks."""
        return one_line(quote) in self._directed

    def shown_line(self, statement: str) -> str:
        return repeats(statement, self._shown)


def note_tool(
    notes: NotesOfRun,
    checkout: str,
    interruption: Interruption,
    origins: Callable[[], tuple[str, ...]] = tuple,
    seconds: float = CHECK_SECONDS,
    toolbox_in: Callable[[str], Toolbox] | None = None,
) -> Tool:
    """`checkout` is where checks run; `origins` and `toolbox_in` as in `MindContext`."""

    def act(given: Mapping[str, Any], all_seconds: float) -> ToolResult:
        details = _details(notes, given)
        key = key_of(details.subject, details.statement)
        output = ""
        if details.check:
            status, output = _ran(details.check, checkout, interruption, seconds)
            details = msgspec.structs.replace(details, exit_status=status)
        words = named(details.subject, details.statement, details.check)
        if details.exit_status == 0 and words:
            other, tools = control(details.check, words), toolbox_in(checkout) if toolbox_in else None
            if tools:  # the policy has seen the check, and not this
                ended = tools.call(ToolCall("", BASH, {"command": other, "timeout_seconds": seconds})).facts.get("exit")
                status = ended if isinstance(ended, int) else None
            else:
                status, _ = _ran(other, checkout, interruption, seconds)
            details = msgspec.structs.replace(details, control=status)
        if details.check and not details.failed and not details.checked and key not in notes.noted:
            notes.weakly.add(key)
        else:
            notes.weakly.discard(key)
        notes.noted.add(key)
        facts: dict[str, Any] = {NOTE: details.plain()}
        if details.exit_status is not None:
            facts["exit"] = details.exit_status
        return ToolResult(_words(details, origins, output), facts=facts)

    return Tool(NOTE_SPEC, act, round(2 * (seconds + END_SECONDS) * 1000), SideEffect.EXECUTE)


def _names_mind(given: Mapping[str, Any]) -> bool:
    return any(_MIND.search(value) for value in given.values() if isinstance(value, str))


def _details(notes: NotesOfRun, given: Mapping[str, Any]) -> NoteDetails:
    """Raises ToolError for what cannot be a note."""
    subject, statement = one_line(given["subject"]), one_line(given["statement"])
    check, quote = given.get("check", "").strip(), one_line(given.get("quote", ""))
    bounds = (("subject", subject, MOST_SUBJECT), ("statement", statement, MOST_STATEMENT))
    for name, text, most in (*bounds, ("check", check, MOST_CHECK), ("quote", quote, MOST_QUOTE)):
        if len(text) > most:
            raise ToolError(f"{name} has {len(text)} characters; expected {most} at most", _SHORTER[name])
    for name, text in (("subject", subject), ("statement", statement)):
        if not normalised(text):
            raise ToolError(f"{name} holds no word; expected one line", "Say what it is about, and what is so")
    if key_of(subject, statement) in notes.noted - notes.weakly:
        raise ToolError("this run has noted the same already", "One note of a fact is enough; go on")
    if len(notes.noted) >= MOST_NOTES:
        raise ToolError(
            f"this run has made {MOST_NOTES} notes, the most that one may",
            "Say what else matters in your report, or put it into a file",
        )
    if quote and (len(quote.split()) < LEAST_QUOTED_WORDS or not notes.says(quote)):
        raise ToolError(
            f"the quote {quote[:60]!r} does not stand so in the directives or the task of this run",
            f"Copy {LEAST_QUOTED_WORDS} or more words of the PM's letter by letter, or leave quote out",
        )
    if check and (problem := problem_with_check(check) or ("it holds a NUL character" if "\0" in check else "")):
        raise ToolError(
            f"the check shows nothing: {problem}",
            "Give a command that looks at the thing itself and ends with another status than 0 when the statement is "
            "wrong, or leave check out",
        )
    return NoteDetails(subject, statement, check, None, quote, bool(quote), notes.shown_line(statement)[:200])


_SHORTER = {
    "subject": "Name the thing alone",
    "statement": "Note one fact at a time",
    "check": "Put it into a script, and run that",
    "quote": "Quote the words that say it",
}


def _ran(check: str, checkout: str, interruption: Interruption, seconds: float) -> tuple[int | None, str]:
    """The status with which it ended, None when it was ended; and what it wrote."""
    from infra.cell.loop import command
    from infra.cell.loop.bash_tool import environment

    ran = command.run(
        ["bash", "-c", check],
        cwd=checkout if os.path.isdir(checkout) else "/",
        env=environment(),
        seconds=seconds,
        output_chars=OUTPUT_CHARS,
        interruption=interruption,
        end_session=True,
    )
    return ran.status if ran.status is None or ran.status >= 0 else 128 - ran.status, ran.output


def _words(details: NoteDetails, origins: Callable[[], tuple[str, ...]], output: str) -> str:
    if details.failed:
        ended = "was ended before it was through" if details.exit_status is None else f"status {details.exit_status}"
        return (
            f"{output.rstrip()}\n[check: {ended}] So the statement is kept in the log and counts for nothing. If the "
            "check is right, note what is true instead."
        ).lstrip()
    try:
        has_read_the_web = bool(origins())
    except OSError as error:
        return f"noted; what it counts for is settled later, as the keep does not say what this run has read: {error}"
    origin = origin_of(details, has_read_the_web, False)
    why = ""
    if details.check and not details.checked and origin is not Origin.PAGE:
        why = " " + (_TOO_WEAK if details.control is None else _ALWAYS)
    return f"noted ({origin.value}): {_WHAT_FOLLOWS[origin]}{why}"
