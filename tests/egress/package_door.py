"""The mirror of package indexes by itself, as the web door's user. Each line of the trace goes to stdout.

`python -m tests.egress.package_door PORT CERTIFICATE HOST…`"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys

import msgspec

from infra.keep.web_door.fetch import Connections, look_up
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.mirror import Mirror
from infra.keep.web_door.trace import TraceLine
from infra.shared.policy import Policy


async def record(line: TraceLine) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


async def main(port: int, certificate: str, hosts: tuple[str, ...]) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    trusting = Connections(ssl.create_default_context(cafile=certificate))
    made = Mirror(hosts, Judge(Policy()), trusting, look_up, record)
    await (await made.serve(listening)).serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], tuple(sys.argv[3:])))
