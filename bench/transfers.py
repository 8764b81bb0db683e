"""Bytes from one process to another over TCP on 127.0.0.1; run as a text in a container. Each number of bytes on stdin
is answered with the seconds from the permission to send to the last byte received."""

from __future__ import annotations

import os
import socket
import sys
import time

PIECE_BYTES = 256 * 1024


def seconds_of(count: int) -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                send(server.getsockname(), count)
                status = 0
            finally:
                os._exit(status)
        try:
            connection, _ = server.accept()
            with connection:
                took = receive(connection, count)
        finally:
            _, ended = os.waitpid(pid, 0)
    if ended:
        raise RuntimeError(f"the sender ended with {ended}")
    return took


def send(address: tuple[str, int], count: int) -> None:
    piece = bytes(PIECE_BYTES)
    with socket.create_connection(address, timeout=60) as connection:
        connection.recv(1)
        left = count
        while left:
            left -= connection.send(piece[: min(left, PIECE_BYTES)])


def receive(connection: socket.socket, count: int) -> float:
    room = bytearray(PIECE_BYTES)
    began = time.perf_counter()
    connection.sendall(b"!")
    left = count
    while left:
        received = connection.recv_into(room)
        if not received:
            raise RuntimeError(f"the connection ended with {left} of {count} bytes to come")
        left -= received
    return time.perf_counter() - began


if __name__ == "__main__":
    for line in sys.stdin:
        print(seconds_of(int(line)), flush=True)
