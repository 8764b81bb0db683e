"""What an address on the web names. It is read here, once, and what is sent is put together from these parts: no
second reader can take another host from the same text. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import idna

from infra.keep.web_door.refusal import WebRefusal, failed, invalid
from infra.shared.network import MAX_HOST_LENGTH, address_of
from infra.shared.secret_shapes import redacted
from infra.shared.text import cut
from infra.shared.web import MOST_URL_CHARS

PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_NO_ADDRESS_HOLDS = re.compile(r"[\x00-\x20\x7f\\]")
_LEFT_AS_IT_IS = "!#$%&'()*+,/:;=?@[]~"
_WANTED = "expected something like https://example.org/page"


class Target(NamedTuple):
    scheme: str
    host: str
    """As a name server and a certificate know it, or an address in its usual form without brackets."""
    port: int
    path: str
    """With the query, as it goes over the wire."""

    @property
    def authority(self) -> str:
        """As the `Host` header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        return self.origin + self.path


def target_of(url: str) -> Target:
    """Raises WebRefusal that says what is wrong."""
    shown = ascii(cut(redacted(url), 200))
    if len(url) > MOST_URL_CHARS:
        raise invalid(f"the URL is {len(url)} characters long; at most {MOST_URL_CHARS} are taken")
    if _NO_ADDRESS_HOLDS.search(url):
        raise invalid(f"{shown} holds a blank, a control character or a backslash, which no URL has", _WANTED)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise invalid(f"{shown} is not a URL: {error}", _WANTED) from None
    if parts.scheme not in PORTS:
        raise invalid(f"{shown} is no http or https URL", _WANTED)
    if "@" in parts.netloc:
        raise invalid(f"{shown} holds a user name or password; pages that need one are not read", _WANTED)
    if port == 0:
        raise invalid(f"{shown} names port 0", _WANTED)
    path = quote(parts.path or "/", safe=_LEFT_AS_IT_IS)
    query = f"?{quote(parts.query, safe=_LEFT_AS_IT_IS)}" if parts.query else ""
    return Target(parts.scheme, _host(host, shown), port or PORTS[parts.scheme], path + query)


def redirected(target: Target, location: str) -> Target:
    """Where a redirect leads. Raises WebRefusal."""
    try:
        return target_of(urljoin(target.url, location.strip()))
    except (ValueError, WebRefusal):  # what it says may hold words of the site's
        raise failed(f"{target.origin} redirects to where no page can be", "use another source") from None


def _host(written: str, shown: str) -> str:
    if "%" in written or not written:
        raise invalid(f"{shown} names no host", _WANTED)
    if address := address_of(written):
        return str(address)
    name = written.removesuffix(".")
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except idna.IDNAError as error:
            raise invalid(f"{shown} names no host: {error}", _WANTED) from None
        if address_of(name):
            raise invalid(f"the host of {shown} is an address in digits of another script; write it in plain ones")
    if len(name) > MAX_HOST_LENGTH or not _NAME.fullmatch(name):
        raise invalid(f"{shown} names no host", _WANTED)
    return name
