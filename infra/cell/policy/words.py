"""What the words of one command start: a program, behind whatever only starts it, and texts for another shell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))
MAX_SCRIPTS = 16
"""Texts for a shell in one command."""
_RESERVED = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"))
_OF_SHELL = ("builtin", "command", "coproc", "exec", "function", "time", "trap")
_OF_USER = ("chroot", "doas", "nsenter", "runuser", "setpriv", "su", "sudo", "unshare")
_OF_TIME = ("chrt", "flock", "ionice", "nice", "nohup", "setsid", "stdbuf", "taskset", "timeout", "watch")
_OF_OTHERS = ("busybox", "env", "find", "ltrace", "parallel", "script", "strace", "xargs")
WRAPPERS = frozenset((*_OF_SHELL, *_OF_USER, *_OF_TIME, *_OF_OTHERS))
"""Each word after one of these may be the program that is started: which one, their many options decide."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_NUMBER = re.compile(r"[0-9.]+[smhd]?")
_OPERATOR = re.compile(r"(?:[0-9]*|\{\w+\})(?:<>|<&|<<<|<|>>|>&|>\||>)|&>>?")
_REDIRECTION = re.compile(r"(?:[0-9]*|\{\w+\}|&)[<>].*", re.DOTALL)
_OPTION = re.compile(r"[-+][a-zA-Z]+|--[a-z-]+")


def bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words from the program on: without reserved words, assignments, redirections and programs that only start
    another, with plain options; the program by its last name."""
    at = program_at(words)
    while at < len(words) and name_of(words[at]) in WRAPPERS:
        beyond = at + 1
        while beyond < len(words) and (words[beyond].startswith("-") or _NUMBER.fullmatch(words[beyond])):
            beyond += 1
        at = program_at(words, beyond)
    return (name_of(words[at]), *words[at + 1 :]) if at < len(words) else ()


def program_at(words: tuple[str, ...], at: int = 0) -> int:
    """Where the command begins, behind reserved words, assignments and redirections."""
    while at < len(words):
        if _OPERATOR.fullmatch(words[at]):
            at += 2
        elif _skipped(words[at]):
            at += 1
        else:
            break
    return at


def started(words: tuple[str, ...]) -> Iterator[str]:
    """What a command that starts others may start: the rest of its words, from each of them on."""
    rest = _after_wrapper(words)
    pieces = [" ".join(word.split()) for word in rest]
    text, at = " ".join(pieces), 0
    for piece in pieces:
        yield text[at + piece.rfind("/") + 1 :]
        at += len(piece) + 1


def scripts_in(words: tuple[str, ...]) -> tuple[list[str], bool]:
    """The texts that a command hands to a shell, and whether these are all."""
    rest = _after_wrapper(words)
    shells = [at for at, word in enumerate(rest) if name_of(word) in SHELLS or name_of(word) == "eval"]
    texts = chain(_handed(bare(words)), *(_handed(rest[at:]) for at in shells[:MAX_SCRIPTS]))
    found = list(islice(texts, MAX_SCRIPTS + 1))
    return list(dict.fromkeys(found)), max(len(found), len(shells)) <= MAX_SCRIPTS


def name_of(word: str) -> str:
    return word.rpartition("/")[2]


def _skipped(word: str) -> bool:
    return bool((word in _RESERVED and word not in WRAPPERS) or _ASSIGNMENT.fullmatch(word)) or bool(
        _REDIRECTION.fullmatch(word)
    )


def _after_wrapper(words: tuple[str, ...]) -> tuple[str, ...]:
    at = program_at(words)
    return words[at + 1 :] if at < len(words) and name_of(words[at]) in WRAPPERS else ()


def _handed(words: tuple[str, ...]) -> Iterator[str]:
    """The text that a shell or `eval` at the beginning of the words is given; before it what may be a redirection."""
    program, rest = (name_of(words[0]), words[1:]) if words else ("", ())
    if program == "eval":
        yield " ".join(rest[1:] if rest[:1] == ("--",) else rest)
    if program not in SHELLS:
        return
    at = next((at for at, word in enumerate(rest) if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word)), len(rest))
    named = 0
    while at < len(rest) and _OPTION.fullmatch(rest[at]):
        named += 0 if rest[at].startswith("--") else len(re.findall("[oO]", rest[at]))
        at += 1
        while named and at < len(rest):
            named, at = named - 1, at + 1
    at += at < len(rest) and rest[at] in ("-", "--")
    while at < len(rest):
        yield rest[at]
        if _OPERATOR.fullmatch(rest[at]):
            at += 1
        elif not _REDIRECTION.fullmatch(rest[at]):
            return
        at += 1
