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
  | (?P<redirection>(?:[0-9]+|&)?(?:>>|>\||>&|>|<&|<)(?![<>(]))
  | (?P<word>(?![\#!])(?:[^\s;|&<>()'"`$\\{}]|\{\}|'[^']*'|"[^"$`\\]*")+)
    """,
    re.VERBOSE,
)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NO_PROGRAM = re.compile(r"\w+\+?=|.*[*?\[\]~]|\Z", re.DOTALL)
"""An assignment, or what bash may expand to another name."""
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "eval"))
PLAIN_BUILTINS = {
    **dict.fromkeys(("cd", "echo", "pwd", "true", "false", ":", "exit", "kill", "umask"), re.compile(".*", re.DOTALL)),
    "printf": re.compile(r"(?!-)(?:[^%*?\[\0]|%[%bcdqs])*(?:\0.*)?", re.DOTALL),
    "test": re.compile(r"(?!(?:.*\0)?-[vR](?:\0|\Z))[^*?\[]*", re.DOTALL),
    "wait": re.compile(r"[0-9\0]*"),
}
"""With the arguments, joined by NUL, for which they neither run anything nor set a variable."""
OTHER_BUILTINS = frozenset(
    re.findall(
        r"\S+",
        "! [[ ]] { } if then elif else fi while until for select do done case esac in function time coproc . [ "
        "alias bg bind break builtin caller command compgen complete compopt continue declare dirs disown enable "
        "eval exec export fc fg getopts hash help history jobs let local logout mapfile popd pushd read readarray "
        "readonly return set shift shopt source suspend times trap type typeset ulimit unalias unset",
    )
)
"""The other names that bash keeps for itself. Many of them evaluate a word: `read 'a[$(id)]'` runs `id`."""


class Script(NamedTuple):
    commands: tuple[tuple[str, ...], ...]
    """The words of each command, without quotes and redirections; a guess for a text in doubt."""
    plain: bool
    """False for a text in doubt."""
    redirections: tuple[tuple[str, ...], ...] = ()
    """Of each command of a plain text: operator and file as one word, without quotes."""


def read(text: str) -> Script:
    commands: list[tuple[list[str], list[str]]] = [([], [])]
    at, operator = 0, ""
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or len(text) > MAX_CHARS or (operator and token.lastgroup in ("join", "redirection")):
            return _guess(text)
        at = token.end()
        words, redirections = commands[-1]
        unquoted = _QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", token[0])
        if token.lastgroup == "join":
            commands.append(([], []))
        elif token.lastgroup == "redirection":
            operator = token[0]
        elif token.lastgroup == "word" and operator:  # the name of the file
            if operator[-1] == "&" and token[0].startswith("-") and len(token[0]) > 1:
                return _guess(text)  # `>&-x`: the minus closes, and x is a word of its own
            redirections.append(operator + unquoted)
            operator = ""
        elif token.lastgroup == "word":
            words.append(unquoted)
    found = [(tuple(words), tuple(redirections)) for words, redirections in commands if words or redirections]
    if operator or not all(_is_plain(words) for words, _ in found if words):
        return _guess(text)
    return Script(tuple(words for words, _ in found), True, tuple(redirections for _, redirections in found))


def forms(command: tuple[str, ...]) -> Iterator[str]:
    """What a rule that forbids looks at: the command as it stands, and from each word on, programs by their last name,
    since a program may start another (`sudo`, `xargs`)."""
    yield " ".join(command)
    for at, word in enumerate(command):
        # One word may be a whole command: `env -S 'rm /x'`.
        yield from {" ".join((name, *command[at + 1 :])) for name in (_name(word), re.sub(r"\A\S*/", "", word))}


def _is_plain(command: tuple[str, ...]) -> bool:
    program, arguments = command[0], "\0".join(command[1:])
    return (
        not _NO_PROGRAM.match(program)
        and program not in OTHER_BUILTINS
        and (program not in PLAIN_BUILTINS or PLAIN_BUILTINS[program].fullmatch(arguments) is not None)
        and _SHELLS.isdisjoint(map(_name, command))
        and len(command) <= MAX_WORDS
    )


def _guess(text: str) -> Script:
    """Words that may be those of commands, for a look at the hosts that they name."""
    pieces = re.split(r"[;|&\n()<>`]+", re.sub(r"\\\n|\$(?=[\"'])|[\"'\\]", "", text))
    return Script(tuple(words for piece in pieces if (words := tuple(piece.split()))), False)


def _name(word: str) -> str:
    return word.rpartition("/")[2]
