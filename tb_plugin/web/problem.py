"""Errors as JSON with an HTTP status."""

from __future__ import annotations

import logging

from tb_plugin.errors import Cancelled, UserError
from tb_plugin.payloads import Problem
from tb_plugin.payloads.export import to_json

_LONGEST = 600
log = logging.getLogger("torch_trace")


class MethodNotAllowed(UserError):
    """Raised if the request method is neither GET nor HEAD."""

    status = 405


def problem_json(error: BaseException) -> tuple[int, bytes]:
    """Returns the HTTP status and the JSON body of an error. Unexpected errors are logged with their traceback."""
    if isinstance(error, UserError):
        return error.status, _body(Problem(*(_short(text) for text in (error.what, error.where, error.do))))
    if isinstance(error, Cancelled):
        return 500, _body(Problem("The request was cancelled.", str(error), "Repeat the request."))
    log.error("A request failed.", exc_info=error)
    return 500, _body(Problem("An internal error happened.", "", "See the TensorBoard log for details."))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _body(problem: Problem) -> bytes:
    return to_json({"error": problem})
