"""What the agent tells of its own failures, and how it could do better: sections of `reflection/failures.md` and
`reflection/improvements.md`, one for each thing."""

from __future__ import annotations

import os

from infra.shared.mind.layout import FAILURES, IMPROVEMENTS
from infra.shared.mind.sections import MindSection, document_of
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below

MOST_BYTES = 1 << 20


def tell_failure(root: str, heading: str, text: str) -> None:
    """As the section of this heading, in the place of the one before with the same; `root` is the mind's.

    Raises OSError, also for a file that is no text or has grown over MOST_BYTES: it is left as it is."""
    _tell(root, FAILURES, "# Failures\n", heading, text)


def tell_improvement(root: str, heading: str, text: str) -> None:
    """A proposal, in the same way."""
    _tell(root, IMPROVEMENTS, "# Improvements\n", heading, text)


def _tell(root: str, file: str, head: str, heading: str, text: str) -> None:
    try:
        content = Below(root).whole(file, MOST_BYTES)
    except FileNotFoundError:
        content = head.encode()
    try:
        document = document_of(content.decode())
    except UnicodeDecodeError as error:
        raise OSError(f"{file}: expected UTF-8 text, but {error}; mend the file, it was left as it is") from error
    heading = " ".join(heading.split())
    new = document.with_section(MindSection(heading, f"## {heading}\n\n{text.strip()}\n")).whole()
    if new != document.whole():
        path = os.path.join(root, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        RedactedFile(path).replace(new)
