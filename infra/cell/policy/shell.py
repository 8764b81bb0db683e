"""The commands that a shell's text consists of, as far as a small lexer can see them. Pure.

It knows quotes, comments, here-documents, lists, pipelines, subshells and substitutions, and the text that is handed
to `bash -c` or `eval`. What a shell computes it does not know: variables, globs, braces, aliases, files, input."""

from __future__ import annotations

import re
from typing import NamedTuple

from infra.cell.policy.words import program_at, scripts_in

MAX_CHARS = 128 * 1024
"""What one word of a command line can hold (MAX_ARG_STRLEN, execve(2)); no `bash -c` could run a longer text."""
MAX_INNER_CHARS = 4 * MAX_CHARS
"""Of all texts in a text that a shell reads anew."""
MAX_DEPTH = 16
MAX_PARTS, MAX_DOCUMENTS = 1000, 50
"""What a text may hold of commands, and of here-documents, for each of which the rest is searched for its end."""
_OPERATOR = re.compile(r"<>|<&|<<<|>>|>&|>\||[<>]")
_DESCRIPTOR = re.compile(r"[0-9]+|\{\w+\}")
_DELIMITER = re.compile(
    r"-?[ \t]*(?:(?P<plain>[\w.,:/=@%+!-]+)|(?P<quoted>'[^'\n]*'|\"[^\"\n$`\\]*\"|\\[\w.-]+))(?=[\s;|&<>()]|\Z)"
)
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^\]]*")
_JOINS, _JOINED = tuple("$<>&|(;"), tuple("$<>&|('\"{[`\\;#-")
"""What may grow into another sign when a line is joined with the next, and what with."""
_QUOTES, _INSTEAD = tuple("('\"{["), ("", " ", "\t", "\n", "|")
_PLAIN = re.compile(r"[A-Za-z0-9_./,:=@%+-]+")
_ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}


class Part(NamedTuple):
    """One command of a list or pipeline."""

    text: str
    """As it is written, with single blanks."""
    words: tuple[str, ...]
    """Without quotes; what is between backticks or in `$(…)` is left out."""


class Script(NamedTuple):
    parts: tuple[Part, ...]
    whole: bool
    """False when it is not sure that bash takes it apart likewise: an open quote, too long, too deep, too many
    commands, or what its grammar knows and this lexer does not."""


def single_blanks(text: str) -> str:
    return " ".join(text.split())


def script_of(text: str) -> Script:
    reader = _Reader(text[:MAX_CHARS], 0, [MAX_INNER_CHARS])
    reader.commands("", 0, False)
    return Script(tuple(reader.parts), reader.whole and len(text) <= MAX_CHARS)


class _Reader:
    """Goes through the text once; what it finds is in `parts`."""

    def __init__(self, text: str, depth: int, left: list[int]) -> None:
        self.parts: list[Part] = []
        self.whole = True
        self._text = text
        self._left = left
        """How much may be read anew, by all readers of a text together."""
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
        braces = 0
        testing = False

        def push() -> None:
            nonlocal word, testing
            if word is not None:
                words.append(word)
                testing = word != "]]" and (testing or word == "[[")
            word = None

        def unsure() -> bool:
            """Within what bash reads by other rules: arithmetic, a test, a parameter, a subscript."""
            open_ones = (*words, word or "")
            return arithmetic or testing or braces > 0 or any(map(_SUBSCRIPT.fullmatch, open_ones))

        def finish(upto: int) -> None:
            nonlocal word, begun
            push()
            self._doubt(braces > 0 or (bool(end) and words[program_at(tuple(words)) :][:1] == ["case"]))
            self._add(text[begun:upto], tuple(words), depth)
            words.clear()
            begun = self._at

        while self._at < len(text):
            at = self._at
            char, two = text[at], text[at : at + 2]
            self._at = at + 1
            if char == end:
                self._doubt(bool(documents) or testing or any(map(_SUBSCRIPT.fullmatch, (*words, word or ""))))
                finish(at)
                return
            if char == "\\":
                self._at = at + 2
                self._doubt(two[1:] == "\n" and text[at - 1 : at] in _JOINS and text[at + 2 : at + 3] in _JOINED)
                if two[1:] != "\n":
                    word = (word or "") + two[1:]
            elif char == "'":
                word = (word or "") + self._until_quote()
            elif two == "$'":
                self._at = at + 2
                word = (word or "") + self._ansi()
            elif char == '"' or two == '$"':
                self._at = at + (1 if char == '"' else 2)
                word = (word or "") + self.quoted('"', depth)
            elif two in ("$(", "<(", ">("):
                self._at = at + 2
                word = word or ""
                self.commands(")", depth, arithmetic or text[at + 2 : at + 3] == "(")
                self._doubt(bool(documents) and "\n" in text[at : self._at])
            elif two in ("${", "$[", "$$"):
                self._at = at + 2
                word = (word or "") + two
                braces += self._parameter(two)
            elif char in "{}" and braces:
                self._doubt(char == "{")
                braces -= char == "}"
                word = (word or "") + char
            elif char == "`":
                word = word or ""
                self._backticks(depth, quoted=False)
                self._doubt(bool(documents) and "\n" in text[at : self._at])
            elif char == "#" and word is None:
                self._doubt(unsure())
                found = text.find("\n", at)
                finish(at)
                self._at = begun = found if found >= 0 else len(text)
            elif char in " \t":
                push()
            elif two == "<<" and not text.startswith("<<<", at):
                self._at = at + 2
                self._doubt(unsure() or "[" in (word or ""))
                if not arithmetic:
                    documents.append(self._delimiter())
                    self._documents += 1
                if self._documents > MAX_DOCUMENTS:
                    self._give_up()
                    return
            elif char == "\n":
                finish(at)
                while documents:
                    self._document(*documents.pop(0), depth, end)
                begun = self._at
            elif two == "&>":
                push()
                self._at = at + 2
                word = two
            elif char in ";|&)":
                finish(at)
            elif char == "(":
                finish(at)
                self.commands(")", depth, arithmetic or testing or text[at + 1 : at + 2] == "(")
                self._doubt(bool(documents) and "\n" in text[at : self._at])
                begun = self._at
            elif char in "<>":
                if word is not None and not _DESCRIPTOR.fullmatch(word) and word != "&>":
                    push()
                self._doubt(braces > 0)
                operator = _OPERATOR.match(text, at)
                word = (word or "") + (operator[0] if operator else char)
                self._at = operator.end() if operator else at + 1
            else:
                plain = _PLAIN.match(text, at)
                run = plain[0] if plain else char
                self._at = at + len(run)
                word = (word or "") + run
        finish(len(text))
        self._doubt(bool(end) or bool(documents))

    def quoted(self, end: str, depth: int) -> str:
        """Between double quotes, or in the body of a here-document for no `end`: its letters, without substitutions."""
        text = self._text
        found: list[str] = []
        braces = 0
        while self._at < len(text):
            at = self._at
            char, two = text[at], text[at : at + 2]
            self._at = at + 1
            self._doubt(braces > 0 and char in "'\"{")
            if char == end:
                return "".join(found)
            if char == "\\":
                self._at = at + 2
                self._doubt(two[1:] == "\n" and text[at - 1 : at] == "$")
                self._doubt(braces > 0 and two[1:] in ("'", '"', "`", "\\", "{", "}", "$", "\n"))
                if two[1:] != "\n":
                    found.append(two[1:] if two[1:] in ('"', "\\", "$", "`") else two)
            elif two == "$(":
                self._at = at + 2
                self.commands(")", depth, text[at + 2 : at + 3] == "(")
            elif char == "`":
                self._backticks(depth, quoted=True)
            elif two in ("${", "$[", "$$"):
                self._at = at + 2
                found.append(two)
                braces += self._parameter(two)
            else:
                braces -= char == "}" and braces > 0
                found.append(char)
        self._doubt(bool(end) or braces > 0)
        return "".join(found)

    def _add(self, text: str, words: tuple[str, ...], depth: int) -> None:
        if not words:
            return
        if len(self.parts) >= MAX_PARTS:
            self._give_up()
            return
        self.parts.append(Part(single_blanks(text), words))
        scripts, all_seen = scripts_in(words)
        self._doubt(not all_seen)
        for script in scripts:
            if script:
                self._inside(script, depth)

    def _inside(self, text: str, depth: int) -> None:
        """Read a text that the shell will read anew."""
        if self._too_deep(depth + 1):
            return
        self._left[0] -= len(text)
        if self._left[0] < 0:
            self._give_up()
            return
        reader = _Reader(text, depth, self._left)
        reader.commands("", depth, False)
        self.parts += reader.parts
        self.whole = self.whole and reader.whole

    def _too_deep(self, depth: int) -> bool:
        if depth <= MAX_DEPTH:
            return False
        self._give_up()
        return True

    def _doubt(self, unsure: bool) -> None:
        """Read on, but nothing is allowed for what is seen from here."""
        self.whole = self.whole and not unsure

    def _parameter(self, two: str) -> bool:
        """After `${`, `$[` or `$$`: whether a brace has to be closed. Of the others bash's reading is not sure here."""
        after = self._text[self._at : self._at + 1]
        self._doubt(two == "$[" or (two == "$$" and after in _QUOTES) or (two == "${" and after in _INSTEAD))
        return two == "${"

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
        return _ANSI.sub(_unescaped, match[1]).partition("\0")[0]

    def _backticks(self, depth: int, quoted: bool) -> None:
        match = re.compile(r"((?:[^`\\]|\\.)*)`", re.DOTALL).match(self._text, self._at)
        if match is None:
            self.whole = False
            self._at = len(self._text)
            return
        self._at = match.end()
        self._doubt(quoted and '\\"' in match[1])
        self._inside(re.sub(r"\\([`\\$])", r"\1", match[1]), depth)

    def _delimiter(self) -> tuple[str, bool, bool]:
        """After `<<`: the word that ends the document, whether tabs before it count not, whether it was quoted."""
        tabs = self._text.startswith("-", self._at)
        match = _DELIMITER.match(self._text, self._at)
        if match is None:
            self._doubt(True)
            return "", tabs, True
        self._at = match.end()
        return match["plain"] or match["quoted"].strip("'\"\\"), tabs, not match["plain"]

    def _document(self, delimiter: str, tabs: bool, quoted: bool, depth: int, within: str) -> None:
        """Step over the body of a here-document; what it substitutes is read. One without its end is in doubt, and read
        as commands: whatever that is, it is not hidden. In a substitution the rest of its last line may go on."""
        at = self._at
        while at < len(self._text):
            end = self._text.find("\n", at)
            end = len(self._text) if end < 0 else end
            line = self._text[at:end].lstrip("\t") if tabs else self._text[at:end]
            self._doubt(
                (not quoted and line.endswith("\\")) or (bool(within) and line.startswith(delimiter) and within in line)
            )
            if line == delimiter:
                if not quoted:
                    reader = _Reader(self._text[self._at : at], depth, self._left)
                    reader.quoted("", depth)
                    self.parts += reader.parts
                    self.whole = self.whole and reader.whole
                self._at = min(end + 1, len(self._text))
                return
            at = end + 1
        self._doubt(True)


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal = match[1] or match[2] or match[3]
    if hexadecimal:
        return chr(min(int(hexadecimal, 16), 0x10FFFF))
    if match[4]:
        return chr(int(match[4], 8) & 0xFF)
    return _ANSI_NAMED.get(match[5], match[5])
