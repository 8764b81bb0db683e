"""From what was fetched to what the cell is given: read by the worker, framed by the door."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from infra.keep.web_door.content import Content
from infra.keep.web_door.page import page_of
from infra.keep.web_door.plain import type_of
from infra.keep.web_door.refusal import denied
from infra.keep.web_door.search import search_results
from infra.shared.text import counted

if TYPE_CHECKING:
    from infra.keep.web_door.fetching import Fetched
    from infra.keep.web_door.worker import Readers
    from infra.shared.web import FetchRequest, Page, SearchResults


class Rendering:
    def __init__(self, readers: Readers, keep_raw_html: bool) -> None:
        self._readers = readers
        self._keep_raw_html = keep_raw_html
        self._secret = secrets.token_bytes(32)

    def refuse_raw(self, asked: FetchRequest) -> None:
        """To be asked before anything is fetched. Raises WebRefusal."""
        if asked.raw and not self._keep_raw_html:
            words = "raw pages are not given out (web.keep_raw_html is false)"
            raise denied(words, "ask for the page without raw", "raw_html")

    async def page(self, fetched: Fetched, asked: FetchRequest) -> Page:
        """Raises WebRefusal."""
        self.refuse_raw(asked)
        if fetched.is_read:
            header = f"{fetched.content_type}; charset={fetched.charset}" if fetched.charset else fetched.content_type
            content = await self._readers.read(fetched.body, header, fetched.url, asked.raw)
        else:
            size = counted(fetched.size, "byte") if fetched.size >= 0 else "size unknown"
            about = f"the body, which is no text: {type_of(fetched.content_type) or 'no type'}, {size}"
            content = Content("", "", notes=(about,))
        return page_of(fetched, content, asked.max_chars, self.nonce(fetched))

    def found(self, fetched: Fetched) -> SearchResults:
        """Raises WebRefusal."""
        return search_results(fetched.body, fetched.origin, self.nonce(fetched))

    def nonce(self, fetched: Fetched) -> str:
        """Nobody outside knows it before; the same page gets the same, so that a run that reads one again and again is
        seen to get nowhere."""
        said = f"{fetched.url}\0{fetched.sha256}".encode(errors="replace")
        return hashlib.blake2b(said, key=self._secret, digest_size=8).hexdigest()
