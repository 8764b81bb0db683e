"""What an event says of one note of the model's: the dispatcher's findings beside the model's words."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from infra.cell.mind.claims import Origin
from infra.cell.mind.statements import problem_with_check
from infra.shared.text import one_line

NOTE: Final = "note"
"""The tool, and the fact of its result that becomes `metadata.details` of the event."""
SHOWN, STATEMENTS = "shown", "statements"
"""In the details of a recall, or of what was placed before a run: ids of sections, and keys of statements."""
MOST_SUBJECT, MOST_STATEMENT, MOST_CHECK, MOST_QUOTE = 80, 400, 1000, 400
"""Characters."""
MOST_NOTES: Final = 20
"""Of one run."""


class NoteDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    subject: str
    statement: str
    check: str = ""
    """The command that was run for it."""
    exit_status: int | None = None
    """Of the check; None when none was run, or when it was not let run to its end."""
    quote: str = ""
    quote_found: bool = False
    """It stands in the PM's words of this run."""
    recalled: str = ""
    """What was shown to this run and says the same already."""
    control: int | None = None
    """Status of the check with what it names of the statement made something else (`checks.control`); None when it
    names too little, or when that was not let run to its end."""

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    @property
    def checked(self) -> bool:
        """A command bears it out, and one that failed for something else."""
        could_fail = bool(self.control) and not problem_with_check(self.check)
        return bool(self.check) and self.exit_status == 0 and could_fail

    @property
    def failed(self) -> bool:
        """A command was run to bear it out, and did not."""
        return bool(self.check) and self.exit_status != 0


def details_of(raw: object) -> NoteDetails | None:
    """None for what is no note, or one beyond all bounds."""
    try:
        found = msgspec.convert(raw, NoteDetails)
    except (msgspec.ValidationError, TypeError, RecursionError):
        return None
    subject, statement = one_line(found.subject), one_line(found.statement)
    if not subject or not statement or len(subject) > MOST_SUBJECT or len(statement) > MOST_STATEMENT:
        return None
    return msgspec.structs.replace(found, subject=subject, statement=statement)


def origin_of(details: NoteDetails, has_read_the_web: bool, was_shown: bool) -> Origin:
    """Whose word a note is.

    A page comes first: a run that has read one may check and quote as the page wants. What was shown is no evidence of
    itself, but a check or the PM's own words are, whoever reminded the run of it."""
    if has_read_the_web:
        return Origin.PAGE
    if details.quote and details.quote_found:
        return Origin.DIRECTIVE
    if details.checked:
        return Origin.CHECK
    return Origin.RECALL if was_shown or details.recalled else Origin.ACT
