"""What a requirements file asks for, in one form for all ways to write it: pip is given that form and never the file
itself, so that what is hashed is what is installed. What would make the same text mean different things at different
times (other files, directories, variables) is refused. Which environment that leads to is `choose`'s."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from typing import NamedTuple

NAMES = ("requirements.lock", "requirements.txt")
"""At the root of a repository; the first that is there counts."""
MAX_BYTES = 1024 * 1024


class BadRequirements(ValueError):
    """A requirements file that is not taken; the text names file and line, what is wrong and what to do."""


class Requirements(NamedTuple):
    """Understood; equal for files that differ in comments, blank lines and the order of packages only."""

    text: str
    """What pip is given: options in their order, then packages sorted. Empty when nothing is asked for."""
    hashed: bool
    """pip must take nothing whose hash is not there."""
    packages: frozenset[str]
    """Their names as wheels spell them: `typing_extensions`."""


_NAME = r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
_EXTRAS = r"(?: ?\[[A-Za-z0-9., _-]*\])?"
_VERSION = r"(?:[<>=!~]=?|===) ?[A-Za-z0-9.*+!_-]+"
_VERSIONS = rf"(?: ?\(?{_VERSION}(?: ?, ?{_VERSION})*\)?)?"
_PACKAGE = re.compile(rf"{_NAME}{_EXTRAS}{_VERSIONS} ?")
_ARCHIVE = re.compile(r"\.(?:zip|whl|tar|tgz|tbz|txz|tlz|tar\.(?:gz|bz2|xz|lz|lzma))(?![A-Za-z0-9._-])", re.IGNORECASE)
"""In a package's line: pip takes it for the name of a file in the current directory."""
_HASH = re.compile(r"--hash=sha(?:256|384|512):[0-9A-Fa-f]+")
_ADDRESS = r"https?://[^\s\"'\\]+"
_HOST = r"[A-Za-z0-9.:_\[\]-]+"
_OPTION = re.compile(
    rf"-i {_ADDRESS}|--(?:extra-)?index-url[ =]{_ADDRESS}|--trusted-host[ =](?!-){_HOST}|--pre|--require-hashes"
)
_OPTIONS_TAKEN = "--index-url, --extra-index-url, --trusted-host, --pre, --require-hashes"
_COMMENT = re.compile(r"(?:^|\s)#.*")
_WHY_NOT = (
    (re.compile(r"-r|--requirement"), "another file is included; put its lines here"),
    (re.compile(r"-c|--constraint"), "another file constrains it; put the versions here"),
    (re.compile(r"-e|--editable"), "an editable install; a checkout's own code needs none, it is imported from there"),
    (re.compile(r"-"), f"this option is not taken; only {_OPTIONS_TAKEN} are, one in each line"),
    (re.compile(r".*(?:@|://)"), "an address; name the package and its version, and with --index-url where it is"),
    (re.compile(r"\.|.*[/\\]"), "a path; name the package and its version, or keep the code in the checkout"),
)


def understand(content: bytes, source: str) -> Requirements:
    """`source` names the file in what is said of it. Raises BadRequirements."""
    if len(content) > MAX_BYTES:
        raise BadRequirements(f"{source} is over {MAX_BYTES} bytes; name fewer packages")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequirements(f"{source} is not UTF-8 (byte {error.start}); write it in UTF-8") from None
    options, packages, names = [], set(), set()
    for number, line in _joined(text):
        problem = _problem_with(line)
        if problem:
            raise BadRequirements(f"{source}, line {number}: {line[:80]!a}: {problem}")
        if line.startswith("-"):
            options.append(line)
        else:
            packages.add(line)
            names.add(wheel_name(_named(line)))
    lines = [*options, *sorted(packages)] if packages else []
    hashed = "--require-hashes" in options or any(" --hash=" in line for line in packages)
    return Requirements("".join(f"{line}\n" for line in lines), hashed, frozenset(names))


def fingerprint(requirements: Requirements, runtime: str) -> str:
    """Of all that decides what an environment holds: 64 hex digits."""
    return hashlib.sha256(f"{requirements.text}\0{runtime}".encode()).hexdigest()


def this_runtime() -> str:
    """The interpreter that environments are made with: one of another build, place or machine cannot use them."""
    version = ".".join(map(str, sys.version_info))
    return f"{sys.implementation.cache_tag} {version} {sys.platform} {os.uname().machine} {sys.base_prefix}"


def wheel_name(package: str) -> str:
    """A package's name as the first part of a wheel's file name, in small letters."""
    return re.sub(r"[-_.]+", "_", package).lower()


def _joined(text: str) -> list[tuple[int, str]]:
    """Lines that say something, with where each begins: continued ones in one, no comments, single blanks."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    began = 0
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, 1):
        began = began if parts else number
        goes_on = line.endswith("\\") and not line.lstrip().startswith("#") and number < len(lines)
        # Only a blank makes what follows it a comment, so a comment that ends a continued line is given one.
        parts.append(line[:-1] if goes_on else f" {line}" if line.startswith("#") else line)
        if not goes_on:
            plain = re.sub("[ \t]+", " ", _COMMENT.sub("", "".join(parts))).strip(" ")
            found += [(began, plain)] if plain else []
            parts = []
    return found


def _named(line: str) -> str:
    match = _PACKAGE.match(line)
    return match["name"] if match else line


def _problem_with(line: str) -> str:
    if not line.isprintable():
        return "a character that cannot be printed; take it out"
    if "${" in line:
        return "a variable; write what it stands for"
    if line.startswith("-"):
        taken = bool(_OPTION.fullmatch(line))
    else:
        head, *options = line.split(" --")
        taken = bool(_PACKAGE.fullmatch(head.partition(";")[0].partition(" -")[0]))
        if taken and _ARCHIVE.search(head.partition(";")[0]):
            return "the name of an archive, which is a local file to pip; name the package and its version"
        if taken and (" -" in head or not all(_HASH.fullmatch(f"--{option}") for option in options)):
            return "an option that is not a --hash=sha256:…; take it out"
    if taken:
        return ""
    return next((why for pattern, why in _WHY_NOT if pattern.match(line)), "no package and version, such as name==1.0")
