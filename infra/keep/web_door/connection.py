"""One request to one address that was judged. The address stands in the URL, so no name is looked up again; the name
stands in `Host` and is what the certificate must be of."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx2

from infra.keep.web_door.refusal import WebRefusal, failed, late
from infra.keep.web_door.target import Target
from infra.shared.addresses import Address

CONNECT_SECONDS = 8.0
MOST_ADDRESSES = 4
"""Of one host that are tried."""
AGENT = "minifram"
HEADERS = {
    "user-agent": f"{AGENT}/1 (an agent's reader)",
    "accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,application/pdf;q=0.8,*/*;q=0.5",
    "accept-language": "en;q=0.8,*;q=0.5",
    "accept-encoding": "gzip, deflate",
    "connection": "close",
}


class Connections:
    """No cookie, password, proxy or redirect, and no connection that is used twice: one that was opened, and proved by
    its certificate, for one name would else serve another name at the same address."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        """`trust`: instead of the system's certificates."""
        self._trust = trust
        self._encrypted: httpx2.AsyncHTTPTransport | None = None
        self._plain = _transport(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def ask(
        self, target: Target, addresses: tuple[Address, ...], seconds: float, headers: Mapping[str, str] = HEADERS
    ) -> httpx2.Response:
        """The beginning of an answer; its body is in `stream`, and the caller closes it. Raises WebRefusal."""
        trouble: WebRefusal | None = None
        for address in addresses[:MOST_ADDRESSES]:
            try:
                return await self._ask(target, address, seconds, headers)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                trouble = _unreached(target, error)
            except httpx2.TimeoutException:
                raise late(f"{target.origin} sent nothing for {seconds:g} s", "try again later") from None
            except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                raise broken(target, error) from None
        raise trouble or failed(f"{target.host} has no address")

    async def _ask(
        self, target: Target, address: Address, seconds: float, headers: Mapping[str, str]
    ) -> httpx2.Response:
        url = httpx2.URL(scheme=target.scheme, host=str(address), port=target.port, raw_path=target.path.encode())
        waits = {"connect": min(CONNECT_SECONDS, seconds), "read": seconds, "write": seconds, "pool": seconds}
        request = httpx2.Request(
            "GET",
            url,
            headers={"host": target.authority, **HEADERS, **headers},
            extensions={"sni_hostname": target.host, "timeout": waits},
        )
        return await self._transport(target.scheme).handle_async_request(request)

    def _transport(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        if scheme == "http":
            return self._plain
        if self._encrypted is None:  # reading the system's certificates takes a moment, and some memory
            self._encrypted = _transport(self._trust or ssl.create_default_context())
        return self._encrypted


def _transport(trust: ssl.SSLContext) -> httpx2.AsyncHTTPTransport:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx2.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits)


def _unreached(target: Target, error: Exception) -> WebRefusal:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", "") or cause.reason or "the handshake failed"
            return failed(f"{target.origin} does not prove who it is, or does not encrypt: {why}", "use another source")
        cause = cause.__cause__ or cause.__context__
    return failed(f"{target.origin} cannot be reached ({error})", "try again later", retriable=True)


def broken(target: Target, error: Exception) -> WebRefusal:
    words = f"{target.origin} gave an answer that cannot be read ({type(error).__name__})"
    return failed(words, "try again, or use another source", retriable=True)
