"""What the keep holds of the mind, in `var/mind.json`: the files that are the PM's alone, as the PM last pushed them,
and what was found not to be so. The watcher writes it whole; the git door and the host read it."""

from __future__ import annotations

import msgspec

from infra.shared.safe_files import whole_file

FILE = "mind.json"
"""In the keep's var."""
SCHEMA = "minifram.mind/1"
MOST_BYTES = 4 << 20


class Baseline(msgspec.Struct, frozen=True):
    """The files of `layout.PM_ONLY` at one commit of the branch."""

    commit: str
    at: str
    """When the keep saw it."""
    files: dict[str, str]
    """Path -> SHA-256 of the content, in hexadecimal."""


class BaselineChange(msgspec.Struct, frozen=True):
    """The PM changed some of these files."""

    at: str
    commit: str
    paths: tuple[str, ...]
    much: float = 0.0
    """Which share of its words the identity lost or got, when that is a large one; else 0."""


class MindKept(msgspec.Struct, frozen=True):
    baseline: Baseline | None = None
    earlier: tuple[Baseline, ...] = ()
    """The last ones, oldest first."""
    changes: tuple[BaselineChange, ...] = ()
    """The last ones, oldest first."""
    drift: tuple[str, ...] = ()
    """What is not as the PM wrote it, a line each; empty when all is right, or was never looked at."""
    looked_at: str = ""
    """When the clone and the branch were compared last."""
    schema: str = SCHEMA


def changes_in_words(kept: MindKept) -> tuple[str, ...]:
    """The PM's changes of the identity that are large, a line each, oldest first."""
    return tuple(
        f"{change.at}: commit {change.commit[:12]} changed {change.much:.0%} of the words of {', '.join(change.paths)}"
        for change in kept.changes
        if change.much
    )


def encode_kept(kept: MindKept) -> bytes:
    return msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n"


def read_kept(var: str) -> MindKept | None:
    """None when the keep has never seen a mind. Raises OSError, and ValueError for what is no such file."""
    path = f"{var}/{FILE}"
    try:
        kept = msgspec.json.decode(whole_file(path, MOST_BYTES), type=MindKept)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path} is not what the keep writes ({error}); move it away and run 'minifram restart'"
        ) from None
    if kept.schema != SCHEMA:
        raise ValueError(f"{path} has schema {kept.schema!r}; this version reads {SCHEMA!r}")
    return kept
