"""Splits a line of bash into its simple commands, as far as that can be told without running it.

What is read here decides what counts as evidence, so the rule is: rather unclear than wrong. A line with a
here-document, a function, a `case` or anything else beyond this reader is Unclear, and proves nothing by its words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from run_values import HOME
from shell_line import DEPTH, Line, Simple, Unclear, Word, is_pattern, parenthesis_end

MOST_CHARS = 65_536
"""Of a line; a longer one is Unclear."""
OPENING, CLOSING = frozenset(["if", "while", "until", "for", "{"]), frozenset(["fi", "done", "}"])
BETWEEN = frozenset(["then", "do", "elif", "else", "time"])
BEYOND = frozenset(["case", "esac", "function", "select", "coproc", "in", "!"])
_ENDS = " \t\n;&|()<>"
_HOMES = ("$HOME", "${HOME}")


def read_line(text: str) -> Line:
    """Raises Unclear."""
    if len(text) > MOST_CHARS:
        raise Unclear("too long")
    return _Reader(text).line()


@dataclass
class _Open:
    """A simple command that is being read."""

    joined: str
    words: list[Word] = field(default_factory=list)
    assigned: list[Word] = field(default_factory=list)
    redirects: list[tuple[str, Word]] = field(default_factory=list)
    header: bool = False
    """Of a `for`: no command."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._simples: list[Simple] = []
        self._inner: list[str] = []
        self._opaque: list[bool] = []
        """Of what is open: whether it is uncertain that what stands in it is run at all."""
        self._open = _Open("")
        self._quoted = False

    def line(self) -> Line:
        text, end = self._text, len(self._text)
        while self._at < end:
            char = text[self._at]
            if char in " \t" or text.startswith("\\\n", self._at):
                self._at += 1 if char in " \t" else 2
            elif char == "#":
                newline = text.find("\n", self._at)
                self._at = end if newline < 0 else newline
            elif char in ";\n&|":
                self._operator()
            elif char in "()":
                self._parenthesis(char)
            elif char in "<>":
                self._redirect("")
            else:
                self._word_or_redirect()
        self._close(";")
        if self._opaque:
            raise Unclear("something is left open")
        return Line(tuple(self._simples), tuple(self._inner), self._open.joined == "&")

    def _operator(self) -> None:
        two = self._text[self._at : self._at + 2]
        if two == "&>":
            self._redirect("")
            return
        if two == ";;":
            raise Unclear("a case")
        if two in ("&&", "||", "|&"):
            self._at += 2
            self._close("|" if two == "|&" else two)
        else:
            char = self._text[self._at]
            self._at += 1
            self._close(";" if char == "\n" else char)

    def _parenthesis(self, char: str) -> None:
        if char == "(":
            if self._open.words or self._open.assigned or self._text.startswith("((", self._at):
                raise Unclear("a function, an array or arithmetic")
            self._opaque.append(True)
        else:
            self._close(";")
            if not self._opaque:
                raise Unclear("a parenthesis that nothing opened")
            self._opaque.pop()
        self._at += 1

    def _redirect(self, number: str) -> None:
        text, begin = self._text, self._at
        while self._at < len(text) and text[self._at] in "<>&|" and self._at - begin < 3:
            self._at += 1
        operator = text[begin : self._at]
        if operator not in ("<", ">", ">>", "<<<", "<>", ">&", "<&", "&>", "&>>", ">|"):
            raise Unclear(f"the operator {operator}")
        if text[self._at : self._at + 1] == "(" and operator in ("<", ">"):
            self._at += 1
            end = parenthesis_end(text, self._at, 0)
            self._inner.append(text[self._at : end])
            self._open.words.append(Word(text[begin : end + 1], None))
            self._at = end + 1
            return
        while text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        self._open.redirects.append((number + operator, self._word()))

    def _word_or_redirect(self) -> None:
        begin = self._at
        word = self._word()
        follows = self._text[self._at : self._at + 1]
        if word.raw.isdecimal() and follows in ("<", ">") and follows:
            self._redirect(word.raw)
            return
        opened = self._open
        first = not opened.words and not opened.assigned and not opened.redirects
        if first and not opened.header and self._keyword(word.raw):  # `for done in a` is no end of a loop
            return
        name, equals, _ = word.raw.partition("=")
        if not opened.words and equals and name.isidentifier() and name.isascii():
            opened.assigned.append(word)
        elif not opened.words and word.raw == "[[":
            self._condition(begin)
        else:
            opened.words.append(word)

    def _keyword(self, raw: str) -> bool:
        if raw in BEYOND:
            raise Unclear(raw)
        if raw in OPENING:
            self._opaque.append(raw != "for" or self._open.joined not in ("", ";"))
            self._open.header = raw == "for"
            return True
        if raw in CLOSING:
            if not self._opaque:
                raise Unclear(f"{raw} that nothing opened")
            self._opaque.pop()
            # What follows it belongs to no simple command, so that redirects of the whole are Unclear.
            while self._text[self._at : self._at + 1] in (" ", "\t"):
                self._at += 1
            if self._text[self._at : self._at + 1] not in ("", ";", "\n", "&", "|", ")", "#"):
                raise Unclear(f"something after {raw}")
            return True
        return raw in BETWEEN

    def _condition(self, begin: int) -> None:
        end = self._text.find(" ]]", self._at)
        if end < 0:
            raise Unclear("[[ without ]]")
        inside = self._text[self._at : end]
        if "$(" in inside or "`" in inside or "\n" in inside:
            raise Unclear("a substitution in [[ ]]")
        self._at = end + 3
        self._open.words.append(Word(self._text[begin : self._at], "[["))

    def _close(self, joined: str) -> None:
        opened = self._open
        if opened.header:
            if not self._opaque:
                raise Unclear("a for that is closed before it began")
            # A loop over words that are there is run once or more.
            over = opened.words[2:] if len(opened.words) > 1 and opened.words[1].raw == "in" else []
            self._opaque[-1] = self._opaque[-1] or not over or any(word.value is None for word in over)
        if (opened.words or opened.assigned or opened.redirects) and not opened.header:
            self._simples.append(
                Simple(
                    tuple(opened.words),
                    tuple(opened.assigned),
                    tuple(opened.redirects),
                    opened.joined,
                    any(self._opaque),
                )
            )
            self._open = _Open(joined)
        else:
            # Nothing stood between two separators: the stronger one joins, as in `done | sort`.
            self._open = _Open(joined if joined != ";" or not opened.joined else opened.joined)

    def _word(self) -> Word:
        text, begin = self._text, self._at
        pieces: list[str] = []
        bare: list[str] = []
        known = True
        while self._at < len(text) and text[self._at] not in _ENDS:
            char = text[self._at]
            piece: str | None
            if char == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise Unclear("a quote is left open")
                piece, self._at = text[self._at + 1 : end], end + 1
            elif char == '"':
                self._quoted = True
                piece = self._double_quoted()
                self._quoted = False
            elif char == "\\":
                piece = text[self._at + 1 : self._at + 2].replace("\n", "")
                self._at += 2
            elif char in "$`":
                piece = self._expansion()
            elif char == "~" and self._at == begin and text[begin + 1 : begin + 2] in ("/", *_ENDS, ""):
                piece, self._at = HOME, self._at + 1
            else:
                bare.append(char)
                piece, self._at = char, self._at + 1
            known = known and piece is not None
            pieces.append(piece or "")
        raw = text[begin : self._at]
        if not raw:
            raise Unclear("a word is missing")
        return Word(raw, "".join(pieces) if known else None, is_pattern(set(bare)))

    def _double_quoted(self) -> str | None:
        text = self._text
        self._at += 1
        value: list[str] = []
        known = True
        while True:
            if self._at >= len(text):
                raise Unclear("a quote is left open")
            char = text[self._at]
            if char == '"':
                self._at += 1
                return "".join(value) if known else None
            if char == "\\":
                escaped = text[self._at + 1 : self._at + 2]
                value.append("" if escaped == "\n" else escaped if escaped in '$`"\\' else f"\\{escaped}")
                self._at += 2
            elif char in "$`":
                piece = self._expansion()
                known = known and piece is not None
                value.append(piece or "")
            else:
                value.append(char)
                self._at += 1

    def _expansion(self) -> str | None:
        text, at = self._text, self._at
        for home in _HOMES:
            after = text[at + len(home) : at + len(home) + 1]
            if text.startswith(home, at) and (home.endswith("}") or not (after.isalnum() or after == "_")):
                self._at += len(home)
                return HOME
        if text[at] == "`":
            end = text.find("`", at + 1)
            if end < 0:
                raise Unclear("a quote is left open")
            self._inner.append(text[at + 1 : end].replace("\\", ""))
            self._at = end + 1
        elif text.startswith("$(", at):
            end = parenthesis_end(text, at + 2, 0)
            if not text.startswith("$((", at):
                self._inner.append(text[at + 2 : end])
            elif "$(" in text[at + 3 : end] or "`" in text[at + 3 : end]:
                raise Unclear("a substitution in arithmetic")
            self._at = end + 1
        elif text.startswith("${", at):
            end = text.find("}", at)
            if end < 0 or any(char in "$`(" for char in text[at + 2 : end]):
                raise Unclear("a variable with more in it")
            self._at = end + 1
        elif text.startswith("$'", at) and not self._quoted:
            end = at + 2
            while end < len(text) and text[end] != "'":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                raise Unclear("a quote is left open")
            self._at = end + 1
        elif text.startswith('$"', at) and not self._quoted:
            raise Unclear("a quote of another kind")
        else:
            self._at += 1
            if text[self._at : self._at + 1] and text[self._at] in "?!#$*@-0123456789":
                self._at += 1
                return None
            begin = self._at
            while self._at < len(text) and (text[self._at].isalnum() or text[self._at] == "_"):
                self._at += 1
            if self._at == begin:
                return "$"
        return None


def with_inner(text: str, depth: int = 0) -> Iterator[Line]:
    """The line, and those in its substitutions. Raises Unclear."""
    if depth > DEPTH:
        raise Unclear("nested too deep")
    line = read_line(text)
    yield line
    for inner in line.inner:
        yield from with_inner(inner, depth + 1)
