"""The world beyond the cell, in a network namespace that leads nowhere: every address there is belongs to it, and
somebody listens on each. It notes every packet that arrives at all.

Run as `python -m tests.egress.far_end` within its namespace; told what to do as in `peer`."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path

from tests.egress import wire
from tests.egress.peer import STACK_BYTES, methods_of, serve

TCP_PORTS = (22, 53, 80, 137, 138, 139, 443, 853, 5353, 5355, 8443, 9999)
UDP_PORTS = (53, 80, 123, 137, 138, 139, 443, 853, 4433, 5353, 5355)
ECHO_PORT = 8080
"""TCP: says back what it hears, and keeps the connection."""
PUBLIC4, PUBLIC6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"
NAMES = {
    "rebind.example": [PUBLIC4, "10.9.8.7"],
    "rebind-shared.example": [PUBLIC4, "100.64.9.9"],
    "metadata.example": ["169.254.169.254"],
}
"""The addresses of a name, one after the other with each question; the last one stays. All others are at PUBLIC4."""


class FarEnd:
    def __init__(self) -> None:
        self.tls: ssl.SSLContext | None = None
        self.pages = {"/": "hello"}
        self.questions: list[tuple[str, int]] = []
        self.asked: dict[str, int] = {}
        self.held: list[socket.socket] = []
        self.heard: list[str] = []
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(0x0003))

    # --- what it is told to do -----------------------------------------------------------------------

    def join(self, cell_pid: int) -> None:
        """Make the one link there is, to the cell's namespace."""
        for command in (
            "link set lo up",
            f"link add w0 type veth peer name c0 netns {cell_pid}",
            "link set w0 up",
            "addr add 10.0.2.2/24 dev w0",
            "addr add 10.0.2.3/24 dev w0",
            "addr add fd00::2/64 dev w0 nodad",
            "addr add fd00::3/64 dev w0 nodad",
            "addr add fe80::2/64 dev w0 nodad",
            # Every other address is here, too.
            "route add local 0.0.0.0/0 dev lo table main",
            "-6 route add local ::/0 dev lo table main",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        for name in ("all", "default", "w0"):
            Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
        Path("/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts").write_text("0")
        self.sniffer.bind(("w0", 0x0003))
        self.sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.sniffer.setblocking(False)
        for port in (*TCP_PORTS, ECHO_PORT):
            for family in (socket.AF_INET, socket.AF_INET6):
                self._listen(family, port)
        for port in UDP_PORTS:
            for family in (socket.AF_INET, socket.AF_INET6):
                self._receive(family, port)

    def take(self) -> list[wire.Packet]:
        """What has arrived since the last time, but for the kernels' own chatter."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                data, where = self.sniffer.recvfrom(70000)
                packet = wire.read_packet(data) if where[2] != socket.PACKET_OUTGOING else None
                if packet and not packet.is_chatter:
                    found.append(packet)
        return found

    def forget(self) -> None:
        """What was asked so far: every name begins with its first address again."""
        self.asked.clear()
        self.questions.clear()

    def take_questions(self) -> list[tuple[str, int]]:
        found, self.questions = self.questions, []
        return found

    def take_heard(self) -> list[str]:
        """What came in on connections that stay open."""
        found, self.heard = self.heard, []
        return found

    def say(self, text: str) -> int:
        """To everyone who holds a connection."""
        for one in self.held:
            with contextlib.suppress(OSError):
                one.sendall(text.encode())
        return len(self.held)

    def hang_up(self) -> None:
        """On everyone, at once."""
        for one in self.held:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RD)  # so that whoever waits for it lets go
                one.close()
        self.held.clear()
        self.heard.clear()

    def call(self, source: str, to: str, port: int) -> str:
        """Connect into the cell, and keep the connection."""
        caller = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_STREAM)
        caller.settimeout(1.0)
        try:
            caller.bind((source, 0))
            caller.connect((to, port))
        except TimeoutError:
            return "silent"
        except OSError as error:
            return str(error)
        self._keep(caller)
        return "reached"

    def send(self, source: str, port: int, to: str, to_port: int, text: str) -> None:
        """A datagram into the cell, from whatever address."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            caller.bind((source, port))
            caller.sendto(text.encode(), (to, to_port))

    def send_packet(self, packet: str, to: str) -> None:
        """A packet made by hand, into the cell."""
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as caller:
            caller.sendto(bytes.fromhex(packet), (to, 0))

    def show(self, path: str, page: str) -> None:
        """Whatever the name of the site."""
        self.pages[path] = page

    def secure(self, certificate: str) -> None:
        """Port 443 speaks TLS from now on, with a file that holds a certificate and its key."""
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate)

    # --- who listens ---------------------------------------------------------------------------------

    def _listen(self, family: socket.AddressFamily, port: int) -> None:
        listener = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen(1000)
        threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()

    def _accept(self, listener: socket.socket, port: int) -> None:
        while True:
            caller, _ = listener.accept()
            caller.settimeout(5.0)
            if port == ECHO_PORT:
                self._keep(caller)
            else:
                threading.Thread(target=self._answer, args=(caller, port), daemon=True).start()

    def _keep(self, caller: socket.socket) -> None:
        caller.settimeout(None)
        self.held.append(caller)
        threading.Thread(target=self._echo, args=(caller,), daemon=True).start()

    def _echo(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while heard := caller.recv(1000):
                self.heard.append(heard.decode())
                caller.sendall(heard)

    def _answer(self, plain: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError), self._secured(plain, port) as caller:
            if port == 53:
                size = struct.unpack("!H", _exactly(caller, 2))[0]
                reply = self._resolve(_exactly(caller, size))
                caller.sendall(struct.pack("!H", len(reply)) + reply)
                return
            asked = b""
            while b"\r\n\r\n" not in asked:
                part = caller.recv(10000)
                if not part:
                    return
                asked += part
            body = self.pages.get(asked.split()[1].decode("latin-1"), "")
            status = "200 OK" if body else "404 Not Found"
            kind = f"Content-Type: text/html\r\nContent-Length: {len(body)}"
            caller.sendall(f"HTTP/1.0 {status}\r\n{kind}\r\n\r\n{body}".encode())

    def _secured(self, caller: socket.socket, port: int) -> socket.socket:
        """Raises OSError."""
        if port != 443 or self.tls is None:
            return caller
        try:
            return self.tls.wrap_socket(caller, server_side=True)
        except OSError:
            caller.close()
            raise

    def _receive(self, family: socket.AddressFamily, port: int) -> None:
        receiver = socket.socket(family, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET:
            receiver.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
            for group in ("224.0.0.251", "239.1.2.3", "239.255.255.255"):
                member = socket.inet_aton(group) + socket.inet_aton("10.0.2.2")
                receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        else:
            receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            receiver.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND: it answers as whoever was asked
            for group in ("ff02::fb", "ff05::1", "ff0e::1"):
                member = socket.inet_pton(family, group) + struct.pack("@I", socket.if_nametoindex("w0"))
                receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
        receiver.bind(("", port))
        threading.Thread(target=self._echo_datagrams, args=(receiver, port), daemon=True).start()

    def _echo_datagrams(self, receiver: socket.socket, port: int) -> None:
        while True:
            data, notes, _, sender = receiver.recvmsg(5000, 200)
            reply = self._resolve(data) if port == 53 else data
            with contextlib.suppress(OSError):
                receiver.sendmsg([reply], [_answer_from(*note) for note in notes], 0, sender)

    def _resolve(self, query: bytes) -> bytes:
        name, qtype, end = wire.read_question(query)
        self.questions.append((name, qtype))
        addresses = []
        if qtype == 1:
            times = self.asked[name] = self.asked.get(name, 0) + 1
            known = NAMES.get(name.lower(), [PUBLIC4])
            addresses = [known[min(times, len(known)) - 1]]
        elif qtype == 28 and name.lower().startswith("six."):
            addresses = [PUBLIC6]
        return wire.answer(query, end, qtype, addresses, 0 if name.lower() in NAMES else 5)


def _exactly(caller: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = caller.recv(size - len(data))
        if not part:
            raise ConnectionError("closed early")
        data += part
    return data


def _answer_from(level: int, kind: int, note: bytes) -> tuple[int, int, bytes]:
    """Answer from the address that was written to, unless it is everybody's."""
    if level == socket.IPPROTO_IP:
        to = note[8:12]
        own = to if to[0] < 224 or (to[0] >= 240 and to != b"\xff" * 4) else socket.inet_aton("10.0.2.2")
        return level, kind, struct.pack("@I", 0) + own + b"\0" * 4
    to = note[:16]
    return level, kind, (b"\0" * 16 if to[0] == 0xFF else to) + note[16:20]


def main() -> None:
    threading.stack_size(STACK_BYTES)
    serve(methods_of(FarEnd()))


if __name__ == "__main__":
    main()
