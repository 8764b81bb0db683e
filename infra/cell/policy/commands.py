"""The commands in a text for bash, as far as they are plain: words, quoted or not, joined by `&&`, `||`, `;`, `|`, `&`
and new lines, with redirections to files. Pure.

Everything else that bash knows (expansions, groups, compound commands, here-documents, other shells) leaves the text
in doubt. There is no grammar of bash here, because a shell can hide a command from any grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_CHARS = 16 * 1024
"""A longer text is in doubt; a long script belongs in a file."""
MAX_STARTED_WORDS = 100
"""Behind a program that starts others; with more of them the text is in doubt."""
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
OF_BASH = frozenset(
    (
        *(
            "!",
            "[[",
            "]]",
            "{",
            "}",
            "if",
            "then",
            "elif",
            "else",
            "fi",
            "while",
            "until",
            "for",
            "select",
            "do",
            "done",
        ),
        *("case", "esac", "in", "function", "time", "coproc"),
        *(".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete"),
        *(
            "compopt",
            "continue",
            "declare",
            "dirs",
            "disown",
            "echo",
            "enable",
            "eval",
            "exec",
            "exit",
            "export",
            "false",
        ),
        *(
            "fc",
            "fg",
            "getopts",
            "hash",
            "help",
            "history",
            "jobs",
            "kill",
            "let",
            "local",
            "logout",
            "mapfile",
            "popd",
        ),
        *("printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source"),
        *("suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait"),
    )
)
"""Every name that bash keeps for itself; all other names start a program, which bash hands its words unread."""
_INERT = {
    **dict.fromkeys(("cd", "echo", "pwd", "true", "false", ":", "exit", "kill", "umask"), re.compile(".*", re.DOTALL)),
    "printf": re.compile(r"(?!-)(?:[^%*?\[\0]|%[%bcdqs])*(?:\0.*)?", re.DOTALL),
    "test": re.compile(r"(?!(?:.*\0)?-[vR](?:\0|\Z))[^*?\[]*", re.DOTALL),
    "wait": re.compile(r"[0-9\0]*"),
}
"""Those of them that are understood, with the arguments, joined by NUL, for which they neither run anything nor set a
variable. Many others evaluate a name: `read 'a[$(id)]'` runs `id`."""
STARTERS = frozenset(
    (
        *(
            "chroot",
            "doas",
            "nsenter",
            "runuser",
            "setpriv",
            "su",
            "sudo",
            "unshare",
            "chrt",
            "flock",
            "ionice",
            "nice",
        ),
        *("nohup", "setsid", "stdbuf", "taskset", "timeout", "watch", "env", "find", "ltrace", "parallel", "script"),
        *("strace", "xargs"),
    )
)
"""Each word behind one of these may be the program that is started: which one, their many options decide."""


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
        match token.lastgroup:
            case "word" if operator:  # the name of the file
                if operator[-1] == "&" and token[0].startswith("-") and len(token[0]) > 1:
                    return _guess(text)  # `>&-x`: the minus closes, and x is a word of its own
                redirections.append(operator + unquoted)
                operator = ""
            case "word":
                words.append(unquoted)
            case "redirection":
                operator = token[0]
            case "join":
                commands.append(([], []))
    found = [(tuple(words), tuple(redirections)) for words, redirections in commands if words or redirections]
    if operator or not all(_is_plain(words) for words, _ in found if words):
        return _guess(text)
    return Script(tuple(words for words, _ in found), True, tuple(redirections for _, redirections in found))


def forms(command: tuple[str, ...]) -> Iterator[str]:
    """The spellings of a command that a rule which forbids looks at: as it stands, the program by its last name, and,
    behind a program that starts others, from each word on."""
    yield " ".join(command)
    started = len(command) if command and _name(command[0]) in STARTERS else min(1, len(command))
    for at in range(started):
        # One word may be a whole command: `env -S 'rm /x'`.
        yield from {" ".join((name, *command[at + 1 :])) for name in (_name(command[at]), _PATH.sub("", command[at]))}


_PATH = re.compile(r"\A\S*/")


def _is_plain(command: tuple[str, ...]) -> bool:
    program, started = command[0], command[1:] if _name(command[0]) in STARTERS else ()
    return (
        not _NO_PROGRAM.match(program)
        and (program not in OF_BASH or _is_inert(program, command[1:]))
        and _SHELLS.isdisjoint(map(_name, (program, *started)))
        and len(started) <= MAX_STARTED_WORDS
    )


def _is_inert(builtin: str, arguments: tuple[str, ...]) -> bool:
    return builtin in _INERT and _INERT[builtin].fullmatch("\0".join(arguments)) is not None


def _guess(text: str) -> Script:
    """Words that may be those of commands, for a look at the hosts that they name."""
    text = text.replace("\\\n", "")
    if "$'" in text:
        text = _ESCAPE.sub(lambda escape: chr(min(int(escape[1] or escape[2], 16), 0x10FFFF)), text).replace("$'", "'")
        text = _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), text)
    pieces = re.split(r"[;|&\n()<>`]+", re.sub(r"\$(?=\")|[\"'\\]", "", text))
    return Script(tuple(words for piece in pieces if (words := tuple(piece.split()))), False)


_ESCAPE, _OCTAL = re.compile(r"\\x([0-9a-fA-F]{1,2})|\\[uU]([0-9a-fA-F]{1,8})"), re.compile(r"\\([0-7]{1,3})")
"""How `$'…'` spells a character."""


def _name(word: str) -> str:
    return word.rpartition("/")[2]
