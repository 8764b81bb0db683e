"""Files of a mind in memory, as the index asks for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from infra.cell.mind.index import FolderSeen
from infra.cell.mind.rows import kind_of


class FilesInMemory:
    """`files` may be changed; `reads` counts."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self.files = dict(files)
        self.reads = list[str]()

    def changed(self, before: Mapping[str, str]) -> Iterator[FolderSeen]:
        for folder in sorted({os.path.dirname(path) for path in self.files}):
            stamps = {
                path: str(hash(content))
                for path, content in self.files.items()
                if os.path.dirname(path) == folder and kind_of(path)
            }
            stamp = str(hash(tuple(sorted(stamps.items()))))
            if before.get(folder) != stamp:
                yield FolderSeen(folder, stamp, stamps)

    def read(self, path: str, most: int) -> bytes:
        self.reads.append(path)
        content = self.files[path]
        return (content.encode() if isinstance(content, str) else content)[:most]


def belief(
    id: str, claim: str, subject: str = "", status: str = "active", validated: str = "", against: str = ""
) -> str:
    return (
        f"## {id}\nClaim: {claim}\n{f'Subject: {subject}{chr(10)}' if subject else ''}Confidence: 0.9\n"
        f"Status: {status}\nType: observed\nProvenance:\n  - Source: event logs/events/2026-01-01.jsonl:3\n"
        f"    Evidence: seen\nLast_validated: {validated or 'never'}\nContradictions:\n  - {against or 'None'}\n\n"
    )


def item(id: str, subject: str, statement: str, validated: str = "", added: str = "2026-01-01") -> str:
    return f"## {id} {subject}\nStatement: {statement}\nAdded: {added}\nLast_validated: {validated or 'never'}\n\n"
