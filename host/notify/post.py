"""Posts one notification: `{"url": …, "seconds": …, "body": …}` on standard input, 0 when the receiver took it.

No redirect is followed: what it leads to is not the address that the PM gave. No word of the address is ever said."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from urllib.parse import urlsplit

from infra.shared.secret_shapes import redacted_and_cut


def main() -> int:
    asked = json.load(sys.stdin)
    try:
        status, reason = post(asked["url"], asked["body"].encode(), asked["seconds"])
    except TimeoutError:
        print(f"no answer within {asked['seconds']:g} s", file=sys.stderr)
        return 1
    except (OSError, http.client.HTTPException) as error:
        print(f"{type(error).__name__}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1
    if 200 <= status < 300:
        return 0
    more = ", a redirect, which is not followed" if 300 <= status < 400 else ""
    print(f"the receiver answered {status} {redacted_and_cut(reason, 100)}{more}", file=sys.stderr)
    return 1


def post(url: str, body: bytes, seconds: float) -> tuple[int, str]:
    """Status and reason of the answer. Raises OSError and HTTPException."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=seconds, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "minifram"})
        answer = connection.getresponse()
        return answer.status, answer.reason
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
