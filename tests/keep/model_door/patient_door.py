"""A door for `test_bodies`, as a program: `python -m tests.keep.model_door.patient_door SOCKET SECONDS MOST_BYTES`
answers `POST /` with the size of the body, and leaves little time and memory to all of them."""

from __future__ import annotations

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from infra.keep.model_door.bodies import Bodies
from infra.keep.model_door.serving import ERROR_HANDLERS
from infra.keep.serving import serve
from infra.shared.sockets import listen


def main(path: str, seconds: float, most_bytes: int) -> None:
    bodies = Bodies(seconds, most_bytes)

    async def size(http: Request) -> Response:
        return JSONResponse({"size": len(await bodies.receive(http))})

    app = Starlette(routes=[Route("/", size, methods=["POST"])], exception_handlers=ERROR_HANDLERS)
    serve(app, listen(path), waiting_seconds=seconds)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
