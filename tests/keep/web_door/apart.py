"""For `test_rebinding`, as a program in a network and mount namespace of its own: a public address that is this
machine's, a name server whose answers change, the system's resolver, and the web door's fetcher. Prints what came of
each address as JSON.

`python -m tests.keep.web_door.apart FOLDER`, as the first process under `unshare --net --mount`."""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from infra.keep.web_door.fetch import Connections, Fetcher, look_up
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.target import target_of
from infra.shared.policy import Policy
from tests.keep.web_door.sites import Site, page, redirect

PUBLIC, PRIVATE = "93.184.215.14", "10.9.9.9"
SERVER = "127.0.0.53"


class Answers(asyncio.DatagramProtocol):
    """Name servers of one zone: what each name means, one answer after the other, then the last one."""

    def __init__(self) -> None:
        self.means = {
            "good.example": [[PUBLIC]],
            "turning.example": [[PUBLIC], [PRIVATE]],
            "inner.example": [[PRIVATE]],
            "mixed.example": [[PUBLIC, PRIVATE]],
            "mapped.example": [["::ffff:10.9.9.9"]],
            "here.example": [["127.0.0.1"]],
        }
        self.asked: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, (kind,) = ".".join(labels), struct.unpack(">H", data[at + 1 : at + 3])
        if name.startswith("hang"):
            return
        left = self.means.get(name, [[]])
        found = [each for each in map(ip_address, left[0]) if (each.version == 4) == (kind == 1)]
        if found:
            self.asked.append(name)
            self.means[name] = left[1:] or left
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(each.packed)) + each.packed for each in found
        )
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
        self._transport.sendto(head + data[12 : at + 5] + records, address)


async def main(folder: Path) -> None:
    for words in ("ip link set lo up", f"ip address add {PUBLIC}/32 dev lo", f"ip address add {PRIVATE}/32 dev lo"):
        subprocess.run(words.split(), check=True)
    (folder / "resolv.conf").write_text(f"nameserver {SERVER}\noptions timeout:20 attempts:1\n")
    subprocess.run(["mount", "--bind", str(folder / "resolv.conf"), "/etc/resolv.conf"], check=True)
    transport, names = await asyncio.get_running_loop().create_datagram_endpoint(Answers, (SERVER, 53))
    fetcher = Fetcher(Judge(Policy()), Connections(), look_up, None)
    came: dict[str, str] = {}
    hanging = [asyncio.create_task(look_up(f"hang{number}.example")) for number in range(40)]
    await asyncio.sleep(0)
    await look_up("good.example")
    came["good beside hanging"] = str(not any(each.done() for each in hanging))
    for each in hanging:
        each.cancel()
    async with Site({"/": page(b"inner")}).running("0.0.0.0", 8080) as site:
        here = site.port
        site.pages["/turn"] = redirect(f"http://turning.example:{here}/")
        site.pages["/in"] = redirect(f"http://inner.example:{here}/")
        site.pages["/ok"] = redirect(f"http://good.example:{here}/")
        for host, path in (
            *(("good", "/"), ("good", "/ok"), ("good", "/in"), ("inner", "/"), ("mixed", "/"), ("mapped", "/")),
            *(("here", "/"), ("turning", "/turn"), ("gone", "/")),
        ):
            try:
                fetched = await fetcher.fetch(target_of(f"http://{host}.example:{here}{path}"), "fetch_page")
                came[host + path] = " ".join((str(fetched.status), *fetched.flags))
            except WebRefusal as refusal:
                came[host + path] = refusal.error.type
        print(json.dumps({"came": came, "names": names.asked, "asked": site.asked}))
    transport.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
