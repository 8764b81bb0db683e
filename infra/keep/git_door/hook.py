"""git's hook for what is pushed through the git door (githooks(5), pre-receive): the running door judges it.

Started for each push as a file of its own, so it imports next to nothing. It refuses when in doubt."""

import json
import os
import socket
import sys

QUARANTINE = ("GIT_QUARANTINE_PATH", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
"""Where the objects of a push are until it is accepted."""
MOST_BYTES = 51 * 4096
SECONDS = 300.0
DENIED = 5
"""As `exit_codes` has it."""
AGAIN = "push again in a moment"
AWAY = f"refused: the git door is being started again, so nothing of this push was taken: {AGAIN}"


def main(judge: str) -> int:
    """`judge`: the door's socket for pushes."""
    lines = sys.stdin.buffer.read(MOST_BYTES).decode(errors="replace")
    where = {name: os.environ[name] for name in QUARANTINE if name in os.environ}
    try:
        os.chdir(os.path.dirname(judge))  # a socket's path must be short
        with socket.socket(socket.AF_UNIX) as door, door.makefile("rb") as answer:
            door.settimeout(SECONDS)
            door.connect(os.path.basename(judge))
            door.sendall(json.dumps({"do": "judge", "lines": lines, "quarantine": where}).encode() + b"\n")
            told = json.loads(answer.readline())
        said = told["answer"]["said"] if "answer" in told else [f"refused: {told['failure']['message']}"]
    except (OSError, ValueError, KeyError, TypeError):
        said = [AWAY]
    for line in said:
        print(line, file=sys.stderr)
    return DENIED if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
