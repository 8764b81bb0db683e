"""Why a request gets no page."""

from __future__ import annotations

from infra.shared.web import WebError, WebErrorType


class WebRefusal(Exception):
    """A request that is not answered with a page; `error` is the whole answer."""

    def __init__(self, error: WebError) -> None:
        super().__init__(error.message)
        self.error = error

    @classmethod
    def of(cls, kind: WebErrorType, message: str, hint: str = "", *, retriable: bool = False) -> WebRefusal:
        return cls(WebError(kind, message, retriable, hint))
