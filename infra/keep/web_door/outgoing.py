"""What may leave with a request. An address is a message to whoever serves it, and a page can order the agent to send
one: `https://elsewhere.example/?data=…`. Decided from values, with the time as an argument.

Free are addresses on hosts that the PM names, and those that stood in what was served. Of all others together only so
many characters leave at once, and then as few as time gives back: enough to look things up, and not for a file. The
rule holds whether or not anything was served before, because a door that was restarted does not know that."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_plus

from infra.keep.allowance import Allowance
from infra.keep.web_door.refusal import WebRefusal, denied
from infra.keep.web_door.target import Target, target_of
from infra.shared.secret_shapes import find_secrets

FREE_CHARS = 1000
"""Of addresses that nothing vouches for, at once."""
SECONDS_A_CHAR = 3.6
"""Then one more in so many seconds: 1,000 in an hour."""
MOST_KNOWN = 50_000
"""Addresses that are remembered."""
MOST_IN_TEXT = 1000
"""Of one page, those that are no links in HTML."""
_IN_TEXT = re.compile(r"""https?://[^\s<>()\[\]{}"'`\\^|]{1,1000}""")
OUTGOING = "outgoing"
NAME_IT = "follow a link of a page that was read, or have the PM name the host in web.allowed_domains"


class Outgoing:
    """What one door has let out and served."""

    def __init__(self, most_known: int = MOST_KNOWN) -> None:
        self._most_known = most_known
        self._known: dict[int, None] = {}
        """Origins and addresses, the oldest first; by hash, which no page can foresee."""
        self._allowance = Allowance(FREE_CHARS, SECONDS_A_CHAR)

    def served(self, url: str, links: Iterable[str]) -> None:
        """Text came from this address, with these addresses in it."""
        self._know(target_of(url).origin)
        for address in (url, *links):
            with contextlib.suppress(WebRefusal):
                self._know(target_of(address).url)  # as it will be asked for: a page need not spell it so

    def _know(self, text: str) -> None:
        self._known[hash(text)] = self._known.pop(hash(text), None)
        if len(self._known) > self._most_known:
            del self._known[next(iter(self._known))]

    def let(self, target: Target, is_named: bool, now: float) -> None:
        """This address is asked for, at this moment of the monotonic clock. Raises WebRefusal when it may not be.

        `is_named`: the PM's settings name its host."""
        let_words(target.url)
        if is_named or hash(target.url) in self._known:
            return
        # The characters that say something to whoever serves it; a host's name to those who resolve it as well.
        cost = len(target.path) - 1 + (0 if hash(target.origin) in self._known else len(target.authority))
        if not self._allowance.take(now, cost):
            words = (
                f"the address is no link of a page that was read, and its {cost} characters are more than may leave in "
                f"such addresses now ({int(self._allowance.left(now))} of {FREE_CHARS} in an hour): an address can "
                "carry a file away"
            )
            raise denied(words, NAME_IT, OUTGOING)


def addresses_in(text: str) -> Iterator[str]:
    """What stands in a text that has no links, such as JSON, or more of them than are listed."""
    found = (match[0].rstrip(".,;:!?*_") for match in _IN_TEXT.finditer(text))
    return itertools.islice(found, MOST_IN_TEXT)


def let_words(words: str) -> None:
    """An address, or what is searched for, must hold nothing that has the shape of a secret. Raises WebRefusal."""
    for text in {words, unquote_plus(words)}:
        for found in find_secrets(text.encode(errors="replace")):
            said = f"what would be sent holds {found.kind}; nothing was sent"
            raise denied(said, "take it out; if it is a real one, tell the PM", OUTGOING)
