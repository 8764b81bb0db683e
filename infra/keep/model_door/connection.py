"""The HTTP connection to a provider: nothing from the environment, no redirects, no compression, and a bound on what
comes back, whatever it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.keep.model_door.errors import BrokenReply
from infra.keep.model_door.model import NOTHING, CallFailure
from infra.shared.addresses import readings

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
MAX_BYTES = 64 * 1024 * 1024
"""Of one answer as it comes over the wire; its events take most of that beside the text in them."""


def http_client(silent_seconds: float, most_bytes: int = MAX_BYTES) -> httpx2.AsyncClient:
    """`silent_seconds`: how long the other side may send nothing at all; `most_bytes`: of one answer."""
    import httpx2

    async def bounded(response: httpx2.Response) -> None:
        _bound(response, most_bytes)

    return httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [bounded]},
        # A connection that is kept can be closed by the other side just when it is used again, and nobody could tell
        # whether that call is charged for. A new one costs little beside a call.
        limits=httpx2.Limits(max_keepalive_connections=0),
        timeout=httpx2.Timeout(silent_seconds, connect=CONNECT_SECONDS),
    )


def _bound(response: httpx2.Response, most_bytes: int) -> None:
    import httpx2

    coding = response.headers.get("content-encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):  # a few bytes of it can stand for any number
        raise BrokenReply(f"the answer is compressed ({coding}), which was not asked for")
    whole = response.stream
    if not isinstance(whole, httpx2.AsyncByteStream):
        raise AssertionError("unreachable: the client is asynchronous")
    response.stream = _bounded_stream(whole, most_bytes)


def _bounded_stream(whole: httpx2.AsyncByteStream, most_bytes: int) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in whole:
                size += len(part)
                if size > most_bytes:
                    raise BrokenReply(f"the answer is over {most_bytes} bytes")
                yield part

        async def aclose(self) -> None:
            await whole.aclose()

    return Bounded()


async def lines_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of a body without their ends (`\\n`, `\\r\\n`), the last one also when nothing ends it. Empty ones,
    which mean nothing to anybody here, are left out."""
    rest = bytearray()
    async for part in response.aiter_raw():
        *whole, left = part.split(b"\n")
        for line in whole:
            if line or rest:
                rest += line
                yield bytes(rest).removesuffix(b"\r")
                rest.clear()
        rest += left
    if rest:
        yield bytes(rest)


def data_of(line: bytes) -> bytes | None:
    """The data in a line of a stream of events, each of which has one such line; None for any other line: a comment,
    an event's name, the blank one behind it. Libraries that read them take a time that grows with the square of an
    event's size."""
    return line[5:].strip() if line.startswith(b"data:") else None


def problem_with_base_url(url: str, example: str = "https://api.anthropic.com", has_key: bool = True) -> str | None:
    """Why no call may be sent there; one with a key goes unencrypted to this machine only."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"model.base_url {url!r} is not an address: {error}"
    if any(not char.isprintable() or char in " \\" for char in url):
        return f"model.base_url {url!r} is not an address: it holds a character that no address has"
    if not host or parts.scheme not in ("https", "http"):
        return f"model.base_url {url!r} is not an address; expected something like {example}"
    if parts.username is not None or parts.query or parts.fragment:
        return "model.base_url holds a user, a query or a fragment; expected an address and nothing else"
    if has_key and parts.scheme == "http" and not _is_this_machine(host):
        return f"model.base_url {url!r} would send the key unencrypted; use https"
    return None


def _is_this_machine(host: str) -> bool:
    """However it is written; where an address can be read in two ways, by both."""
    addresses = readings(host)
    return host == "localhost" or (bool(addresses) and all(address.is_loopback for address in addresses))


def check_content_type(found: str | None, wanted: str) -> None:
    """Raises CallFailure. A page is something between here and the provider speaking; JSON may be a reply that is
    charged for."""
    content_type = found or "none"
    if content_type.startswith(wanted):
        return
    words = f"the provider's reply cannot be used: its content type is {content_type!r}; expected {wanted}"
    is_page = not content_type.startswith("application/json")
    raise CallFailure("provider_error", words, usage=NOTHING if is_page else None)


def redirected(status: int) -> CallFailure:
    words = f"the provider answered with status {status}; redirects are not followed, see model.base_url"
    return CallFailure("provider_error", words)
