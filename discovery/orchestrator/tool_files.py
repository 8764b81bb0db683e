"""Which content of a tool was read: decided from the order of reads and changes, without any file. Pure but for its own
memory.

A digest can be made of a file only when a step is over. It is that of the bytes that were read when nothing changed the
file between the two; so changes are counted. What was read between two changes of one step stays unknown."""

from __future__ import annotations

from dataclasses import dataclass

Identity = tuple[int, int, int, int]
"""Device's and inode's numbers may come again; with size and time of the last change (ns) they tell a content."""


@dataclass
class ToolFile:
    """One file, since the last step. `sha256` and `identity` are of its content then; None: not known."""

    sha256: str | None = None
    identity: Identity | None = None
    changes: int = 1
    """A file of which nothing is known yet counts as changed."""
    first_was_read: bool = False
    last_read: int | None = None
    """After how many changes it was read last."""

    def read(self) -> None:
        self.first_was_read |= self.changes == 0
        self.last_read = self.changes

    def change(self) -> None:
        self.changes += 1

    @property
    def was_read(self) -> bool:
        return self.last_read is not None

    def content_read(self, sha256: str | None, identity: Identity | None) -> str | None:
        """The digest of what was read last in this step, given the file as it is now; None when nobody can tell."""
        if self.last_read == self.changes:
            # Without a change that the kernel told, another identity means one that it does not tell: through memory.
            return sha256 if self.changes or identity == self.identity else None
        return self.sha256 if self.first_was_read else None

    def settle(self, sha256: str | None, identity: Identity | None) -> None:
        """The step is over, and this is the file's content; what comes counts for the next one."""
        self.sha256, self.identity = sha256, identity
        self.changes, self.first_was_read, self.last_read = int(sha256 is None), False, None
