"""The commands in a text for bash, and the hosts that a call names, as far as they can be seen. Pure.

Plain commands are words, quoted or not, joined by `&&`, `||`, `;`, `|`, `&` and new lines, with redirections to files.
Everything else leaves the text in doubt: a shell can hide a command from any grammar, so there is none here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from infra.shared.network import address_of, as_resolved

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
_OF_NETWORK = frozenset(
    re.findall(
        r"\S+",
        "aria2c curl ftp lftp minifram-web wget nc ncat netcat openssl rsync scp sftp socat ssh telnet dig mtr nmap "
        "nslookup ping ping6 tracepath traceroute mongosh mysql psql redis-cli",
    )
)
"""Each word after one of these may name a host; elsewhere, dotted words are versions, prices and files."""
_IN_URL = re.compile(r"://(?:[^\s/?#]{0,1000}@)?(\[[^\]\s]*\]|[^\s/?#:@\[\]\"'`<>|\\;,(){}&=$!*^+]+)")
_DOTTED = re.compile(r"[\w-]+(\.[\w-]+)+\.?")


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


def hosts_in(given: Mapping[str, Any], script: Script | None = None) -> frozenset[str]:
    """The hosts in URLs of the arguments, and among the words of the command that one of them is; as they would be
    looked up: small letters, no dot at the end."""
    commands = script.commands if script else ()
    texts = [*map(str, given.values()), *(word for command in commands for word in command.words)]
    found = {host for text in texts for host in _IN_URL.findall(text)}
    found.update(host for command in commands for host in _of_program(command.words))
    return frozenset(as_resolved(host).strip("[]").removesuffix(".") for host in found) - {""}


def _is_plain(command: Command) -> bool:
    words = command.words
    is_program = not words or not (_NO_PROGRAM.match(words[0]) or words[0] in _EVALUATE)
    return is_program and len(words) <= MAX_WORDS and _SHELLS.isdisjoint(word.rpartition("/")[2] for word in words)


def _guess(text: str) -> Script:
    """Words that may be those of commands, for a look at the hosts that they name."""
    pieces = re.split(r"[;|&\n()<>`]+", re.sub(r"\\\n|[\"'\\$]", "", text))
    return Script(tuple(Command(tuple(piece.split())) for piece in pieces if piece.strip()), False)


def _of_program(words: tuple[str, ...]) -> Iterator[str]:
    """The hosts among the words behind a program of the network, wherever that stands: others may start it."""
    first = next((at for at, word in enumerate(words) if word.rpartition("/")[2] in _OF_NETWORK), len(words))
    for word in words[first + 1 :]:
        authority = re.split(r"[/?#]", word.partition("=")[2] if word.startswith("-") else word, maxsplit=1)[0]
        for piece in (authority, *re.findall(r"\[[^\[\]]*\]|[^:,=@\[\]]+", authority)):
            if _DOTTED.fullmatch(piece) or (":" in piece and address_of(piece)):
                yield piece
