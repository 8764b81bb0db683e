"""As which user something is done: the keep's own, or the cell's, with no more rights than the cell has
(`spec/ARCHITECTURE.md`).

A file that the keep opens for the cell may by then be a link to one of the keep's own. When it is opened as the cell,
the kernel refuses: there is nothing to check first, and no race to win. Files are touched through `safe_files.Below`,
which does that by itself."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypedDict

_NOBODY = -1
"""An id that setfsuid(2) refuses: the call then only returns the one in force."""


class ForChild(TypedDict, total=False):
    """The part of `subprocess.Popen`'s arguments that says who the child is."""

    user: int
    group: int
    extra_groups: list[int]


class Identity(NamedTuple):
    """A user and a group; both None for the user that runs this program."""

    uid: int | None = None
    gid: int | None = None

    @property
    def for_child(self) -> ForChild:
        """Empty when the child runs as we do."""
        if self.uid is None or self.gid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """Within it, this thread accesses files and `/proc` with this identity; other threads do not. Programs started
        within it still run as us, unless `for_child` says otherwise.

        Raises PermissionError when we may not become that user."""
        if self.uid is None or self.gid is None:
            yield
            return
        setfsuid, setfsgid = _calls()
        before = setfsuid(_NOBODY), setfsgid(_NOBODY)
        try:
            # The group first: a user without rights may not change it.
            _become(setfsgid, self.gid, "group")
            _become(setfsuid, self.uid, "user")
            yield
        finally:
            _become(setfsuid, before[0], "user")
            _become(setfsgid, before[1], "group")


OURS = Identity()


@functools.cache
def _calls() -> tuple[Callable[[int], int], Callable[[int], int]]:
    import ctypes  # costs more than all else here; most programs never act as another user

    libc = ctypes.CDLL(None)
    return libc.setfsuid, libc.setfsgid


def _become(call: Callable[[int], int], wanted: int, kind: str) -> None:
    """setfsuid(2) reports no error; a second call shows whether it worked."""
    call(wanted)
    if call(_NOBODY) != wanted:
        raise PermissionError(f"file access as {kind} {wanted} was refused; expected CAP_SETUID and CAP_SETGID")
