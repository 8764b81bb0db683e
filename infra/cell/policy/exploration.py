"""What a run that explores a question of its own may not do, since its question is not marked for it: read the web,
install packages. Pure.

It keeps the money and the taint of either in the place that the PM gave it, as far as the words of a call go: a script
holds anything. No wall."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from infra.cell.policy.decide import Call
from infra.shared.mind.layout import OPEN_QUESTIONS

_WEB_TOOLS = ("fetch_page", "web_search")
_WEB, _FETCHERS = "minifram-web", ("curl", "wget")
_HERE = re.compile(r"localhost|127\.[0-9.]+|::1|0\.0\.0\.0")
_ANY = re.compile("")
_INSTALLERS = (
    (re.compile(r"pip[0-9.]*|pipx|uv"), re.compile(r"install|download|add|sync|run")),
    (re.compile(r"npm|pnpm|yarn|bun"), re.compile(r"install|i|ci|add")),
    (re.compile(r"apt|apt-get|aptitude|dnf|yum|conda|mamba|gem|brew"), re.compile(r"install")),
    (re.compile(r"cargo|go"), re.compile(r"install|add|get")),
    (re.compile(r"apk"), re.compile(r"add")),
    (re.compile(r"npx|uvx"), _ANY),
)
"""Programs, and the words behind them with which they install."""


def beyond(part: str, call: Call) -> str:
    """Why a run whose question is marked for this part may not make the call; empty when it may."""
    needs = "web" if _reads_web(call) else "tools" if _installs(call) else ""
    # What installs a tool may fetch it.
    if needs in ("", part) or (part == "tools" and not _is_for_pages(call)):
        return ""
    what = {"web": "reading the web", "tools": "installing packages"}[needs]
    return (
        f"{what} needs a question that is marked so, and the one that this run explores is not: answer it without, or "
        f"add one to {OPEN_QUESTIONS} as '- Q-0002 ({needs}): …'"
    )


def _is_for_pages(call: Call) -> bool:
    return call.tool in _WEB_TOOLS or any(_WEB in words for words in _programs(call))


def _reads_web(call: Call) -> bool:
    if _is_for_pages(call):
        return True
    fetches = any(name in _FETCHERS for words in _programs(call) for name in words)
    return fetches and any(not _HERE.fullmatch(host) for host in call.hosts.names)


def _installs(call: Call) -> bool:
    return any(_is_install(words) for words in _programs(call))


def _is_install(words: tuple[str, ...]) -> bool:
    return any(
        program.fullmatch(word) and (verb is _ANY or any(map(verb.fullmatch, words[at + 1 :])))
        for at, word in enumerate(words)
        for program, verb in _INSTALLERS
    )


def _programs(call: Call) -> Iterable[tuple[str, ...]]:
    """The words of each command, programs by their last name."""
    commands = call.script.commands if call.script else ()
    return (tuple(map(posixpath.basename, words)) for words in commands)
