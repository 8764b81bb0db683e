"""The commands that a shell's text consists of, as far as a small lexer can see them. Pure.

It knows quotes, comments, here-documents, lists, pipelines, subshells and substitutions, and the text that is handed
to `bash -c` or `eval`. What a shell computes it does not know: variables, globs, braces, aliases, files, input."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CHARS = 128 * 1024
"""What one word of a command line can hold (MAX_ARG_STRLEN, execve(2)); no `bash -c` could run a longer text."""
MAX_DEPTH = 16
MAX_PARTS, MAX_DOCUMENTS = 1000, 50
"""What a text may hold of commands, and of here-documents, for each of which the rest is searched for its end."""
SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))
_RESERVED = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc"))
_WRAPPERS = frozenset(
    ("sudo", "env", "exec", "command", "builtin", "nohup", "nice", "timeout", "xargs", "setsid", "stdbuf", "busybox")
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_NUMBER = re.compile(r"[0-9.]+[smhd]?")
_REDIRECTION = re.compile(r"[0-9]*[<>].*", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_./,:=@%+-]+")
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


class Part(NamedTuple):
    """One command of a list or pipeline."""

    text: str
    """As it is written, with single blanks."""
    words: tuple[str, ...]
    """Without quotes; what is between backticks or in `$(…)` is left out."""


class Script(NamedTuple):
    parts: tuple[Part, ...]
    whole: bool
    """False when something could not be taken apart: an open quote, too long, too deep, too many commands."""


def single_blanks(text: str) -> str:
    return " ".join(text.split())


def script_of(text: str) -> Script:
    reader = _Reader(text[:MAX_CHARS], 0)
    reader.commands("", 0, False)
    return Script(tuple(reader.parts), reader.whole and len(text) <= MAX_CHARS)


def bare(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words from the program on: without reserved words, assignments, redirections and programs that only start
    another; the program by its last name."""
    wrapped = False
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("<", ">", ">>", "2>", "&>"):
            at += 2
            continue
        wraps = word.rpartition("/")[2] in _WRAPPERS
        of_wrapper = wrapped and (word.startswith("-") or _NUMBER.fullmatch(word))
        skipped = word in _RESERVED or _ASSIGNMENT.fullmatch(word) or _REDIRECTION.fullmatch(word)
        if not (wraps or of_wrapper or skipped):
            return (word.rpartition("/")[2], *words[at + 1 :])
        wrapped = wrapped or wraps
        at += 1
    return ()


def _script_in(words: tuple[str, ...]) -> str:
    """The text that a command hands to a shell; empty for none."""
    program, *rest = bare(words) or ("",)
    if program == "eval":
        return " ".join(rest)
    if program in SHELLS:
        for at, word in enumerate(rest[:-1]):
            if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
                return rest[at + 1]
    return ""


class _Reader:
    """Goes through the text once; what it finds is in `parts`."""

    def __init__(self, text: str, depth: int) -> None:
        self.parts: list[Part] = []
        self.whole = True
        self._text = text
        self._at = 0
        self._documents = 0

    def commands(self, end: str, depth: int, arithmetic: bool) -> None:
        """Read commands up to `end`, or to the end of the text for the empty one."""
        depth += 1
        if self._too_deep(depth):
            return
        text, begun = self._text, self._at
        words: list[str] = []
        word: str | None = None
        documents: list[tuple[str, bool, bool]] = []

        def finish(upto: int) -> None:
            nonlocal word, begun
            if word is not None:
                words.append(word)
            self._add(text[begun:upto], tuple(words), depth)
            words.clear()
            word, begun = None, self._at

        while self._at < len(text):
            at = self._at
            char, two = text[at], text[at : at + 2]
            self._at = at + 1
            if char == end:
                finish(at)
                return
            if char == "\\":
                self._at = at + 2
                if two[1:] != "\n":
                    word = (word or "") + two[1:]
            elif char == "'":
                word = (word or "") + self._until_quote()
            elif two == "$'":
                self._at = at + 2
                word = (word or "") + self._ansi()
            elif char == '"':
                word = (word or "") + self.quoted('"', depth)
            elif two in ("$(", "<(", ">("):
                self._at = at + 2
                word = word or ""
                self.commands(")", depth, arithmetic or text[at + 2 : at + 3] == "(")
            elif char == "`":
                word = word or ""
                self._backticks(depth)
            elif char == "#" and word is None:
                found = text.find("\n", at)
                finish(at)
                self._at = begun = found if found >= 0 else len(text)
            elif char in " \t\r":
                if word is not None:
                    words.append(word)
                word = None
            elif text.startswith("<<<", at):
                self._at = at + 3
                if word is not None:
                    words.append(word)
                word = None
            elif two == "<<" and not arithmetic:
                self._at = at + 2
                documents.append(self._delimiter())
                self._documents += 1
                if self._documents > MAX_DOCUMENTS:
                    self._give_up()
                    return
            elif char == "\n":
                finish(at)
                while documents:
                    self._document(*documents.pop(0), depth)
                begun = self._at
            elif char == "&" and (text[at - 1 : at] in (">", "<") or text[at + 1 : at + 2] == ">"):
                word = (word or "") + char
            elif char in ";|&)":
                finish(at)
            elif char == "(":
                finish(at)
                self.commands(")", depth, arithmetic or text[at + 1 : at + 2] == "(")
                begun = self._at
            elif char in "<>":
                if word is not None and not word.isdigit() and word not in ("<", ">", "&"):
                    words.append(word)
                    word = None
                word = (word or "") + char
            else:
                plain = _PLAIN.match(text, at)
                run = plain[0] if plain else char
                self._at = at + len(run)
                word = (word or "") + run
        finish(len(text))
        self.whole = self.whole and not end

    def quoted(self, end: str, depth: int) -> str:
        """Between double quotes, or in the body of a here-document for no `end`: its letters, without substitutions."""
        text = self._text
        found: list[str] = []
        while self._at < len(text):
            at = self._at
            char, two = text[at], text[at : at + 2]
            self._at = at + 1
            if char == end:
                return "".join(found)
            if char == "\\":
                self._at = at + 2
                if two[1:] != "\n":
                    found.append(two[1:] if two[1:] in ('"', "\\", "$", "`") else two)
            elif two == "$(":
                self._at = at + 2
                self.commands(")", depth, text[at + 2 : at + 3] == "(")
            elif char == "`":
                self._backticks(depth)
            else:
                found.append(char)
        self.whole = self.whole and not end
        return "".join(found)

    def _add(self, text: str, words: tuple[str, ...], depth: int) -> None:
        if not words:
            return
        if len(self.parts) >= MAX_PARTS:
            self._give_up()
            return
        self.parts.append(Part(single_blanks(text), words))
        inner = _script_in(words)
        if inner:
            self._inside(inner, depth)

    def _inside(self, text: str, depth: int) -> None:
        """Read a text that the shell will read anew."""
        if self._too_deep(depth + 1):
            return
        reader = _Reader(text, depth)
        reader.commands("", depth, False)
        self.parts += reader.parts
        self.whole = self.whole and reader.whole

    def _too_deep(self, depth: int) -> bool:
        if depth <= MAX_DEPTH:
            return False
        self._give_up()
        return True

    def _give_up(self) -> None:
        """The rest is not looked at."""
        self.whole = False
        self._at = len(self._text)

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            self.whole = False
            end = len(self._text)
        found = self._text[self._at : end]
        self._at = end + 1
        return found

    def _ansi(self) -> str:
        match = re.compile(r"((?:[^'\\]|\\.)*)'", re.DOTALL).match(self._text, self._at)
        if match is None:
            self.whole = False
            self._at = len(self._text)
            return ""
        self._at = match.end()
        return _ANSI.sub(_unescaped, match[1])

    def _backticks(self, depth: int) -> None:
        match = re.compile(r"((?:[^`\\]|\\.)*)`", re.DOTALL).match(self._text, self._at)
        if match is None:
            self.whole = False
            self._at = len(self._text)
            return
        self._at = match.end()
        self._inside(re.sub(r"\\([`\\$])", r"\1", match[1]), depth)

    def _delimiter(self) -> tuple[str, bool, bool]:
        """After `<<`: the word that ends the document, whether tabs before it count not, whether it was quoted."""
        match = re.compile(r"(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;|&<>()'\"\\])*)").match(self._text, self._at)
        assert match is not None  # noqa: S101 - it matches the empty text as well
        self._at = match.end()
        plain = re.sub(r"['\"\\]", "", match[2])
        return plain, bool(match[1]), plain != match[2]

    def _document(self, delimiter: str, tabs: bool, quoted: bool, depth: int) -> None:
        """Step over the body of a here-document; what it substitutes is read. One without its end is read as commands:
        whatever that is, it is not hidden."""
        at = self._at
        while at < len(self._text):
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            line = self._text[at:end]
            if (line.lstrip("\t") if tabs else line) == delimiter:
                if not quoted:
                    reader = _Reader(self._text[self._at : at], depth)
                    reader.quoted("", depth)
                    self.parts += reader.parts
                    self.whole = self.whole and reader.whole
                self._at = min(end + 1, len(self._text))
                return
            at = end + 1


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2]
    if hexadecimal:
        return chr(int(hexadecimal, 16))
    if match[3]:
        return chr(int(match[3], 8) & 0xFF)
    return _ANSI_NAMED.get(match[4], match[4])
