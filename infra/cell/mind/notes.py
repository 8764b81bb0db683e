"""Notes: one statement each that later runs shall know, with what bears it out. The model says what, and how it can be
seen; the dispatcher runs the check. What becomes of a note is decided from the events (`learn`)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from infra.cell.actions import NOTE, ToolCall, ToolResult
from infra.cell.interruption import Interruption
from infra.cell.mind.statements import STOP_WORDS, problem_with_check, words_of
from infra.cell.tools.tool import Args, Tool, ToolError
from infra.shared import comms
from infra.shared.mind.layout import INBOX, SCRATCH
from infra.shared.policy import EXECUTE
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import Below
from infra.shared.text import one_line

LEFT: Final = f"{SCRATCH}/notes"
"""Where a shell leaves for the runner what it did with the mind."""
MOST_LEFT = 20
"""Taken up behind one act."""
CHECK_SECONDS, END_SECONDS = 60.0, 5.0
Origin = Literal["page", "directive", "check", "recall", "act"]
"""Whose word a note is: that of a page which its run had read; the PM's; that of a command which ended with 0; what the
run was shown before; the model's own, of what it saw."""

_COMMON: Final = """add added call called come contain exist file find folder found go hold install installed keep kept
lie live look name named place project read repo repository run say set stand start started use used version write"""
_STOP: Final = frozenset(words_of(" ".join((*STOP_WORDS, _COMMON))))
"""No check is asked to name them."""
_EXACT, _PLACE = re.compile(r"\d|[^\W\d][_=:@#][^\W\d]"), re.compile(r"/|\.[a-z]{1,5}$")
_TASK = re.compile(r"^task_id:[ \t]*(TASK-[0-9]{1,9}).*$", re.MULTILINE)


class Note(Args):
    """Note one fact that later runs need, as one statement about one subject. It is remembered if check bears it out,
    or quote, words of the PM's; else once another run finds the same. What memory showed you needs no note."""

    subject: Annotated[str, Meta(max_length=80, pattern=r"\w")]
    statement: Annotated[str, Meta(max_length=400, pattern=r"\w")]
    check: Annotated[
        str,
        Meta(max_length=1000, pattern=r"\A[^\0]*\Z", description="names what is said, ends with 0 only if it is so"),
    ] = ""
    quote: Annotated[str, Meta(max_length=400)] = ""

    def __post_init__(self) -> None:
        self.subject, self.statement, self.quote = map(one_line, (self.subject, self.statement, self.quote))


class NoteDetails(Note, omit_defaults=True, forbid_unknown_fields=False):
    """What an event says of a note: the model's words, and how its check ended."""

    exit_status: int | None = None
    """Of the check; None when none was run, or when it was not let run to its end."""

    @property
    def checked(self) -> bool:
        """A command bears it out that names what is said."""
        is_sound = self.exit_status == 0 and not problem_with_check(self.check)
        return bool(self.check) and is_sound and names(self.subject, self.statement, self.check)

    @property
    def failed(self) -> bool:
        """A command was run to bear it out, and did not."""
        return bool(self.check) and self.exit_status != 0


def origin_of(details: NoteDetails, has_read_the_web: bool, was_shown: bool, said_by: str) -> Origin:
    """A page comes first: a run that has read one may check and quote as the page wants. What was shown is no evidence
    of itself, but a check or the PM's words are. `said_by` is what `said_in` found."""
    if has_read_the_web:
        return "page"
    if details.quote and said_by:
        return "directive"
    if details.checked:
        return "check"
    return "recall" if was_shown else "act"


PmWords = tuple[tuple[str, str], ...]
"""Ids of directives and tasks, and what each says, in one line."""


def pm_words(page: str, git: Git, mind: str) -> PmWords:
    """Of the directives in this COMMS.md, and of the tasks that ever stood in the inbox at the ref `mind`, where the PM
    alone adds lines."""
    found = [(each.id, each.text) for each in comms.directives(comms.with_sections(page))]
    try:
        changes = git("log", "--reverse", "--patch", "--unified=0", "--format=", mind, "--", INBOX).split("\n")
    except GitError:  # no such branch
        changes = []
    added = "\n".join(line[1:] for line in changes if line.startswith("+") and not line.startswith("+++ "))
    _, *tasks = _TASK.split(added)
    return tuple((id, one_line(text)) for id, text in (*found, *zip(tasks[::2], tasks[1::2], strict=True)))


def said_in(quote: str, words: PmWords) -> str:
    """The id of what has these words; empty for none, and for one word, which stands anywhere. Whoever promotes asks:
    an event may say what it likes."""
    return next((id for id, text in words if quote in text and " " in quote), "")


def names(subject: str, statement: str, check: str) -> bool:
    """Whether the command names enough of the statement: every number and name of a machine's in it that is no path;
    without such, half of its words that are neither the subject's nor paths. `test -d src` ends well whatever is said
    of `src`."""
    every = dict.fromkeys(words_of(statement))
    words = [each for each in every if each.isdecimal() or (each not in _STOP and len(each.strip("-")) > 1)]
    if exact := [each for each in words if _EXACT.search(each) and not _PLACE.search(each)]:
        return all(_stands_in(each, check) for each in exact)
    words = [each for each in words if each not in words_of(subject)] or words
    words = [each for each in words if not _PLACE.search(each)] or words
    return bool(words) and 2 * sum(_stands_in(each, check) for each in words) >= len(words)


def _stands_in(word: str, check: str) -> bool:
    """A stem also begins longer words."""
    behind = "" if word.isalpha() else r"(?![^\W_])"
    return re.search(rf"(?<![^\W_]){re.escape(word)}{behind}", check, re.IGNORECASE) is not None


def note_tool(
    checkout: str, interruption: Interruption, said_by: Callable[[str], str], seconds: float = CHECK_SECONDS
) -> Tool:
    """`checkout` is where checks run; `said_by` gives the id of the directive or task that has these words."""

    def act(given: Note) -> ToolResult:
        from infra.cell.tools import command  # not for `minifram-mind`
        from infra.cell.tools.bash import environment

        details = NoteDetails(given.subject, given.statement, given.check.strip(), given.quote)
        if details.quote and not said_by(details.quote):
            why = f"the quote {details.quote[:60]!r} stands in no directive and no task"
            raise ToolError(why, "Copy two or more words of the PM's letter by letter, or leave quote out")
        if not details.check:
            return ToolResult(_becomes(details), facts={NOTE: msgspec.to_builtins(details)})
        if problem := problem_with_check(details.check):
            hint = "Give a command that looks at the thing itself and fails when the statement is wrong, or none"
            raise ToolError(f"the check shows nothing: {problem}", hint)
        ran = command.run(
            ["bash", "-c", details.check],
            cwd=checkout if os.path.isdir(checkout) else "/",
            env=environment(),
            seconds=seconds,
            output_chars=2000,
            interruption=interruption,
            end_group=True,
        )
        details.exit_status = ran.status
        words, ended_with = _becomes(details), {} if ran.status is None else {"exit": ran.status}
        if details.failed:
            ended = "was ended before it was through" if ran.status is None else f"status {ran.status}"
            words = f"{(ran.output + ran.errors).rstrip()}\n[check: {ended}] {words}".lstrip()
        return ToolResult(words, facts={NOTE: msgspec.to_builtins(details)} | ended_with)

    return Tool(NOTE, Note, act, round((seconds + END_SECONDS) * 1000), EXECUTE)


def _becomes(details: NoteDetails) -> str:
    """What the model is told of it."""
    if details.failed:
        return "So the statement counts for nothing. If the check is right, note what is true instead."
    if details.quote or details.checked:
        return "noted: the PM's word" if details.quote else "noted: borne out by its check"
    words = "noted by your word alone: it counts once another run finds the same by itself; a quote helps, or "
    return words + "a check that names each number, name or path of the statement"


def leave(root: str, tool: str, given: Mapping[str, str]) -> None:
    """What a shell did as if by this tool, for the runner to call it behind the act. Raises OSError."""
    os.makedirs(f"{root}/{LEFT}", exist_ok=True)
    content = msgspec.json.encode({**given, "tool": tool})
    Below(root).write(f"{LEFT}/{time.time_ns()}-{os.getpid()}", content, durable=False)


def taken(root: str) -> Iterator[ToolCall]:
    """What was left: each is off the disk before it is given."""
    files = Below(root)
    try:
        found = sorted(name for name in files.names(LEFT, MOST_LEFT) if not name.startswith("."))
    except OSError:
        return
    for name in found:
        try:
            given = msgspec.json.decode(files.whole(f"{LEFT}/{name}"), type=dict[str, str])
        except (OSError, ValueError):
            given = {}  # the tool says what is missing
        if files.unlink(f"{LEFT}/{name}"):
            yield ToolCall(name, given.pop("tool", NOTE), given)
