"""git's hook for what is pushed through the git door (githooks(5), pre-receive): the running door judges it.

Started for each push as a file of its own, so it imports next to nothing: with `socket` and `json` it would take twice
as long. It refuses when in doubt."""

import os
import sys
from _socket import AF_UNIX, socket
from binascii import a2b_base64, b2a_base64

MOST_BYTES = 51 * 4096
SECONDS = 300.0
DENIED = 5
"""As `exit_codes` has it."""
AGAIN = "push again in a moment"
AWAY = f"refused: the git door is being started again, so nothing of this push was taken: {AGAIN}\n"
_ASKED = b'{"do":"judge","lines":"%s","quarantine":"%s"}\n'
_BEFORE, _BEHIND = b'{"answer":{"said":"', b'"}}\n'


def main(judge: str) -> int:
    """`judge`: the door's socket for pushes."""
    given = sys.stdin.buffer.read(MOST_BYTES), os.environb.get(b"GIT_QUARANTINE_PATH", b"")
    try:
        os.chdir(os.path.dirname(judge))  # a socket's path must be short
        door, told = socket(AF_UNIX), b""
        door.settimeout(SECONDS)
        door.connect(os.path.basename(judge))
        door.sendall(_ASKED % tuple(b2a_base64(each, newline=False) for each in given))
        while piece := door.recv(1 << 18):
            told += piece
        if not (told.startswith(_BEFORE) and told.endswith(_BEHIND)):
            raise ValueError
        said = a2b_base64(told[len(_BEFORE) : -len(_BEHIND)])
    except (OSError, ValueError):
        said = AWAY.encode()
    sys.stderr.buffer.write(said)
    return DENIED if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
