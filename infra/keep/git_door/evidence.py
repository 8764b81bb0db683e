"""The lines under a report of the agent's: what the keep itself saw of the work since the last work that was done, and
where the report claims more than that. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.keep.git_door.claims import Claim, claims_in
from infra.shared.text import counted, cut

BRANCHES_SHOWN, TESTS_SHOWN, STARTS_SHOWN = 3, 2, 6
WORDS_CHARS = 160
"""Of one thing that is named."""
NANO = 1_000_000_000


class Landed(NamedTuple):
    """The agent's commits on one branch that were not in the repository before."""

    branch: str
    commits: int
    files: int
    added: int
    removed: int
    """Lines."""
    more: bool = False
    """There are more commits than were looked at."""


class Examined(NamedTuple):
    """An examination that the keep made."""

    branch: str
    commit: str
    passed: bool
    words: str


class ModelCalls(NamedTuple):
    """Model calls, as the ledger has them."""

    ended: int = 0
    nano_usd: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """In the model, all calls together."""
    unended: int = 0
    unended_nano_usd: int = 0
    """What they may come to at worst."""


class WorkRecord(NamedTuple):
    """All that the keep saw in one stretch of time."""

    since: str
    seconds: float
    """From then to the report."""
    landed: Sequence[Landed] = ()
    examined: Sequence[Examined] = ()
    calls: ModelCalls = ModelCalls()
    starts: Sequence[str] = ()
    """Branches that runners were started on, with the reason, and how they ended when that was not well."""
    unseen: str = ""
    """Why the repository could not be looked at; empty when it could."""


def evidence(seen: WorkRecord, words: str) -> str:
    """A short list, for under a report of these words."""
    lines = [f"Since {seen.since} ({_duration(seen.seconds)}): {_calls(seen.calls)}"]
    if seen.unseen:
        lines.append(f"commits and tests: not known ({_short(seen.unseen)})")
    else:
        lines += [f"commits: {_landed(seen.landed)}", f"tests run by the keep: {_examined(seen.examined)}"]
    if seen.starts:
        more = len(seen.starts) - STARTS_SHOWN
        shown = ", ".join(map(_short, seen.starts[:STARTS_SHOWN]))
        lines.append(f"hops and starts: {shown}{f' and {more} more' if more > 0 else ''}")
    if not seen.unseen:
        lines += [f"**{line}**" for line in _unsupported(seen, words)]
    return "\n".join(f"- {line}" for line in lines)


def _unsupported(seen: WorkRecord, words: str) -> list[str]:
    """What the words claim and the record does not hold."""
    claims, lines = claims_in(words), []
    if Claim.TESTS in claims and not any(each.passed for each in seen.examined):
        ran = "those that the keep ran did not" if seen.examined else "the keep ran none, so that is the agent's word"
        lines.append(f"The report says {Claim.TESTS.value}: {ran}.")
    if Claim.PUSH in claims and not seen.landed:
        lines.append("The report says that something was pushed: no new commit of the agent's is in the repository.")
    return lines


def _calls(calls: ModelCalls) -> str:
    words = f"{counted(calls.ended, 'model call')}, {_dollars(calls.nano_usd)}, {counted(calls.tokens, 'token')}"
    if calls.ended:
        words += f", {_duration(calls.seconds)} in the model"
    if calls.unended:
        words += f"; {calls.unended} without an end, at worst {_dollars(calls.unended_nano_usd)}"
    return words


def _landed(landed: Sequence[Landed]) -> str:
    shown = [
        f"{each.commits}{'+' if each.more else ''} on {_short(each.branch)} "
        f"({counted(each.files, 'file')}, +{each.added:,} -{each.removed:,} lines)"
        for each in landed[:BRANCHES_SHOWN]
    ]
    if more := len(landed) - len(shown):
        shown.append(f"and on {counted(more, 'more branch', 'more branches')}")
    return "; ".join(shown) or "none"


def _examined(examined: Sequence[Examined]) -> str:
    shown = [
        f"{_short(each.branch)}@{each.commit[:12]} {'passed' if each.passed else 'did not pass'}: {_short(each.words)}"
        for each in examined[-TESTS_SHOWN:]
    ]
    if more := len(examined) - len(shown):
        shown.append(f"and {counted(more, 'examination')} before")
    return "; ".join(shown) or "none"


def _dollars(nano: int) -> str:
    """As exactly as the ledger says it, with two decimals at least."""
    whole, fraction = divmod(nano, NANO)
    return f"${whole:,}.{f'{fraction:09}'.rstrip('0'):0<2}"


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _short(text: str) -> str:
    """On one line, without what would be more than text in Markdown."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
    return cut(line.replace("`", "'").replace("*", "·"), WORDS_CHARS)
