"""The way to package indexes by itself, as the web door's user: `python -m tests.egress.package_door PORT HOST…`. Each
line of the trace goes to stdout."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys

import msgspec

from infra.keep.web_door.packages import Packages
from infra.shared.addresses import Address
from infra.shared.web import TraceLine


async def resolve(host: str) -> list[Address]:
    found = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(at[0]) for *_, at in found]


async def record(line: TraceLine) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


async def main(port: int, hosts: tuple[str, ...]) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    await (await Packages(hosts, resolve, record).serve(listening)).serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), tuple(sys.argv[2:])))
