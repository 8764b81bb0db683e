"""The commands in a text for bash, as far as they are plain: words, quoted or not, joined by `&&`, `||`, `;`, `|`, `&`
and new lines, with redirections to files. Everything else leaves the text in doubt: there is no grammar of bash here,
because a shell can hide a command from any grammar. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_CHARS = 16 * 1024
"""A longer text is in doubt; a long script belongs in a file."""
MAX_WORDS = 200
"""Of one command; each may be the program that another starts."""
_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t]+)
  | (?P<join>&&|\|\||\|&|[;|\n]|&(?!>))
  | (?P<redirection>(?:[0-9]+|&)?(?:>>|>\||[<>]&(?!\s*-\S)|[<>])(?![<>(]))
  | (?P<word>(?![\#!])(?:[^\s;|&<>()'"`$\\{}]|\{\}|'[^']*'|"[^"$`\\]*")+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NO_PROGRAM = re.compile(r"\w+\+?=|.*[*?\[\]~]|\Z", re.DOTALL)
"""An assignment, or what bash may expand to another name."""
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "eval"))
_EVALUATE = frozenset(
    re.findall(
        r"\S+",
        "! [[ ]] { } if then elif else fi while until for select do done case esac in function time coproc . [ "
        "alias bind builtin command declare enable exec export fc jobs let local mapfile read readarray readonly "
        "set shopt source trap typeset unset",
    )
)
"""Names of bash behind which it may run, or set, what no word of the text shows."""


class Command(NamedTuple):
    words: tuple[str, ...]
    """Without quotes."""
    files: tuple[str, ...] = ()
    """Of each redirection operator and file as one word."""


class Script(NamedTuple):
    commands: tuple[Command, ...]
    """A guess for a text in doubt."""
    plain: bool
    """False for a text in doubt."""


def read(text: str) -> Script:
    commands: list[tuple[list[str], list[str]]] = [([], [])]
    operator = ""
    for token in _TOKEN.finditer(text[: MAX_CHARS + 1]):
        words, files = commands[-1]
        word = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token[0])
        if token.lastgroup == "word" and operator:
            files.append(operator + word)
            operator = ""
        elif token.lastgroup == "word":
            words.append(word)
        elif token.lastgroup == "join" and not operator:
            commands.append(([], []))
        elif token.lastgroup == "redirection" and not operator:
            operator = token[0]
        elif token.lastgroup != "blank":
            return _guess(text)
    found = tuple(Command(tuple(words), tuple(files)) for words, files in commands if words or files)
    is_plain = not operator and len(text) <= MAX_CHARS and all(map(_is_plain, found))
    return Script(found, True) if is_plain else _guess(text)


def forms(command: Command) -> Iterator[str]:
    """What a rule that forbids looks at: the command as it stands, and from each word on, programs by their last name,
    since a program may start another (`sudo`, `xargs`)."""
    yield " ".join(command.words)
    for at, word in enumerate(command.words):  # one word may be a whole command: `env -S 'rm /x'`
        yield " ".join((re.sub(r"\A\S*/", "", word), *command.words[at + 1 :]))


def _is_plain(command: Command) -> bool:
    words = command.words
    is_program = not words or not (_NO_PROGRAM.match(words[0]) or words[0] in _EVALUATE)
    return is_program and len(words) <= MAX_WORDS and _SHELLS.isdisjoint(word.rpartition("/")[2] for word in words)


def _guess(text: str) -> Script:
    """Words that may be those of commands, for a look at the hosts that they name."""
    pieces = re.split(r"[;|&\n()<>`]+", re.sub(r"\\\n|[\"'\\$]", "", text))
    return Script(tuple(Command(tuple(piece.split())) for piece in pieces if piece.strip()), False)
