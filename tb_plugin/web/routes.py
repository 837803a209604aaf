"""HTTP routes.

Each route parses a request, calls the workspace and encodes the response. docs/http.md documents the routes.
"""

from __future__ import annotations

import gzip
import logging
import re
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace
from tensorboard.backend import http_util
from werkzeug.datastructures import Headers
from werkzeug.wrappers import Request, Response

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.timeline.tiles import parse_tiles
from tb_plugin.errors import BadRequest, Cancelled, NotFoundError, UserError
from tb_plugin.payloads import Problem, Profile
from tb_plugin.payloads.export import to_json
from tb_plugin.service.answers.download import Download
from tb_plugin.service.catalog import PARTS, Place
from tb_plugin.service.dropped_files import DroppedFiles
from tb_plugin.service.workers.desk import waiting_for
from tb_plugin.service.workspace import Workspace
from tb_plugin.web.catalog_cache import Body, CatalogCache
from tb_plugin.web.request_guard import check_host, check_site
from tb_plugin.web.static import find_asset

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

log = logging.getLogger("torch_trace")

BASE = "/data/plugin/torch_trace/"
MAX_LIMIT = 1000
DEFAULT_LIMIT = 100
# Seconds that a request waits for the first scan, so that a small log directory does not appear empty.
_FIRST_SCAN_SECONDS = 5.0
# An upload ends if the client sends nothing for so long.
_UPLOAD_PAUSE_SECONDS = 60.0
_GZIP_FROM_BYTES = 1024
# Maximum length of a text in an error, in characters.
_LONGEST = 600
_MAX_LEVEL = 99
_MAX_ROW = 2**63 - 1
_OF_TABLES = ("sort", "desc", "search", "where", "offset", "limit", "format")
_KNOWN = frozenset((*PARTS, "window", "capture", "steps", "phase", "pattern", "known", *_OF_TABLES))
_JSON = "application/json"
# First path segments of data routes; all other routes are files of the page.
_DATA = ("runs", "profile", "view", "table", "tiles", "download")
_BASELINE = ("base_run", "base_worker", "base_span")
_STACKS = {"folded": "text/plain; charset=utf-8", "speedscope": _JSON}

Environ = dict[str, object]
StartResponse = Callable[..., object]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class MethodNotAllowed(UserError):
    """Raised if the request method is neither GET nor HEAD."""

    status = 405


class _Answer(Response):
    """A response that always has a content type, because TensorBoard warns if the type is missing."""

    def get_wsgi_headers(self, environ: WSGIEnvironment) -> Headers:
        headers = super().get_wsgi_headers(environ)
        if "Content-Type" not in headers and "Content-Type" in self.headers:
            headers["Content-Type"] = self.headers["Content-Type"]
        return headers


class Routes:
    """The WSGI application. ``open_workspace`` is called at the first request that needs data.

    If ``dropped`` is given, files can be uploaded into it.
    """

    def __init__(self, open_workspace: Callable[[], Workspace], dropped: DroppedFiles | None = None) -> None:
        self._open = open_workspace
        self._dropped = dropped
        self._catalog = CatalogCache()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Handles one request. All errors become JSON responses."""
        request = Request(environ)
        try:
            check_host(environ)
            if request.method == "PUT" and self._dropped is not None and request.path == f"{BASE}files":
                check_site(environ)
                return self._store(request, self._dropped)(environ, start_response)  # type: ignore[arg-type]  # as below
            if request.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(f"{request.method} is not supported.", request.path, "Use GET.")
            with waiting_for(partial(_has_gone, environ.get("werkzeug.socket"))):
                response = self._answer(request)
        except Exception as error:  # top level of a request
            status, body = _problem_json(error)
            response = _json(request, body, status)
            if status == MethodNotAllowed.status:
                response.headers["Allow"] = "GET, HEAD"
        return response(environ, start_response)  # type: ignore[arg-type]  # werkzeug's and wsgiref's words for WSGI

    def _answer(self, request: Request) -> Response:
        route = request.path.partition("/torch_trace/")[2]
        head, _, rest = route.partition("/")
        if head in _DATA:
            check_site(request.environ)
        if route == "runs":
            return _body(request, self._catalog.of(self._workspace()), _JSON)
        if route == "profile":
            start = _choice(request, "start", "1", ("0", "1")) == "1"
            retry = _choice(request, "retry", "0", ("0", "1")) == "1"
            view = request.args.get("view", "")
            return _profile(request, self._workspace().profile(_place(request), start, retry, view))
        if head == "view" and rest:
            return self._view(request, rest)
        if head == "table" and rest:
            return self._table(request, rest)
        if route == "tiles":
            return self._tiles(request)
        if route == "download/report":
            return self._report(request)
        if head == "download" and rest in ("original", "window", "stacks"):
            return self._download(request, rest)
        return _static(request, route)

    def _store(self, request: Request, dropped: DroppedFiles) -> Response:
        """Stores the body as a file, and returns the names of its profile."""
        size, name = request.content_length, _arg(request, "name")
        if size is None:
            raise BadRequest("The size of the file is unknown.", name, "Send the header Content-Length.")
        connection = request.environ.get("werkzeug.socket")
        if isinstance(connection, socket.socket):
            connection.settimeout(_UPLOAD_PAUSE_SECONDS)
        path = dropped.save(name, size, request.environ["wsgi.input"])
        return _json(request, to_json(self._workspace().find_dropped(path)))

    def _workspace(self) -> Workspace:
        workspace = self._open()
        workspace.catalog.start()
        workspace.catalog.wait_first(_FIRST_SCAN_SECONDS)
        return workspace

    def _view(self, request: Request, view_id: str) -> Response:
        known = _choice(request, "known", "0", ("0", "1")) == "1"
        params, steps = _params(request, None), _arg(request, "steps")
        answer = self._workspace().view(_place(request), view_id, params, steps, known)
        return _payload(request, answer)

    def _table(self, request: Request, rest: str) -> Response:
        view_id, _, table = rest.partition("/")
        if not table or "/" in table:
            raise NotFoundError("There is no such route.", request.path, "Use table/<view>/<table>.")
        params, steps = _params(request, table), _arg(request, "steps")
        if _choice(request, "format", "json", ("json", "csv")) == "json":
            return _payload(request, self._workspace().view(_place(request), view_id, params, steps))
        place = _place(request)
        answer = self._workspace().csv(place, view_id, params, steps)
        if isinstance(answer, Profile):
            return _profile(request, answer)
        response = _body(request, answer, "text/csv; charset=utf-8")
        response.headers["Content-Disposition"] = _attachment(_csv_name(place, view_id, table))
        return response

    def _tiles(self, request: Request) -> Response:
        level = _number(request, "level", 0, 0, _MAX_LEVEL) or 0
        answer = self._workspace().tiles(_place(request), level, parse_tiles(_arg(request, "tiles")))
        if isinstance(answer, Profile):
            return _profile(request, answer)
        return _body(request, answer, "application/vnd.apache.arrow.stream", gzipped=True)

    def _download(self, request: Request, what: str) -> Response:
        place = _place(request)
        if what == "original":
            stored = self._workspace().original(place)
            if isinstance(stored, Profile):
                return _profile(request, stored)
            return _stream(request, stored, "application/octet-stream")
        if what == "stacks":
            return self._stacks(request, place)
        start_ns, end_ns = (_number(request, name, None, -_MAX_ROW, _MAX_ROW) for name in ("start_ns", "end_ns"))
        packed = _choice(request, "packed", "0", ("0", "1")) == "1"
        answer = self._workspace().window(place, _arg(request, "steps"), start_ns, end_ns)
        if isinstance(answer, Profile):
            return _profile(request, answer)
        if packed:
            # The content itself is compressed: the page sends it on unchanged.
            return _stream(request, replace(answer, name=f"{answer.name}.gz", gzipped=False), "application/gzip")
        return _stream(request, answer, _JSON)

    def _report(self, request: Request) -> Response:
        from tb_plugin.service.html_report.collect import Wanted
        from tb_plugin.service.html_report.write import html_report

        place, params, workspace = _place(request), _params(request, None), self._workspace()
        start_ns, end_ns = (_number(request, name, None, -_MAX_ROW, _MAX_ROW) for name in ("start_ns", "end_ns"))
        redact = _choice(request, "redact", "0", ("0", "1")) == "1"
        base = tuple((key, value) for key, value in params.extra if key.startswith("base_") or key == "per")
        wanted = Wanted(
            place,
            _arg(request, "steps"),
            params.phase,
            params.pattern,
            start_ns,
            end_ns,
            compare=base if any(key in _BASELINE for key, _ in base) else (),
        )
        found = workspace.catalog.find(place).files
        answer = html_report(workspace, wanted, found.url, redact)
        if isinstance(answer, Profile):
            return _profile(request, answer)
        name = "report.html" if redact else f"{found.stem}.html"
        response = _stream(request, Download(name, len(answer), iter([answer])), "text/html; charset=utf-8")
        # The saved file has a policy of its own. This one is for a browser that shows the response.
        response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'; sandbox"
        return response

    def _stacks(self, request: Request, place: Place) -> Response:
        form = _choice(request, "format", "folded", tuple(_STACKS))
        answer = self._workspace().stacks(place, _params(request, None), form, _arg(request, "steps"))
        if isinstance(answer, Profile):
            return _profile(request, answer)
        return _stream(request, answer, _STACKS[form])


def _problem_json(error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, UserError):
        return error.status, _problem_body(Problem(*(_short(text) for text in (error.what, error.where, error.do))))
    if isinstance(error, Cancelled):
        return 500, _problem_body(Problem("The request was cancelled.", str(error), "Repeat the request."))
    log.error("A request failed.", exc_info=error)
    return 500, _problem_body(Problem("An internal error happened.", "", "See the TensorBoard log for details."))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _problem_body(problem: Problem) -> bytes:
    return to_json({"error": problem})


def _has_gone(connection: object) -> bool:
    unblocked = getattr(socket, "MSG_DONTWAIT", 0)
    if not isinstance(connection, socket.socket) or not unblocked:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK | unblocked) == b""
    except (BlockingIOError, TimeoutError):  # connected, without data
        return False
    except OSError:
        return True


def _place(request: Request) -> Place:
    run, worker, span = (request.args.get(name) for name in PARTS)
    return Place(run, worker, span, _arg(request, "window"), _arg(request, "capture"))


def _params(request: Request, table: str | None) -> Params:
    where = []
    for item in request.args.getlist("where"):
        column, separator, value = item.partition(":")
        if not separator or not column:
            raise BadRequest("A filter must be column:value.", f"where={item}", "Example: where=name:aten::mm.")
        where.append((column, value))
    return Params(
        phase=_arg(request, "phase"),
        pattern=_arg(request, "pattern"),
        table=table,
        sort=request.args.get("sort") or None,
        descending=_choice(request, "desc", "1", ("0", "1")) == "1",
        search=_arg(request, "search"),
        where=tuple(where),
        offset=_number(request, "offset", 0, 0, _MAX_ROW) or 0,
        limit=_number(request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT),
        extra=tuple((key, value) for key, value in request.args.items(multi=True) if key not in _KNOWN),
    )


def _arg(request: Request, name: str) -> str:
    return str(request.args.get(name, ""))


def _choice(request: Request, name: str, default: str, choices: tuple[str, ...]) -> str:
    value = _arg(request, name) or default
    if value not in choices:
        raise BadRequest(
            f"The parameter {name} cannot have the value {value}.", name, f"Choose one of {', '.join(choices)}."
        )
    return value


def _number(request: Request, name: str, default: int | None, low: int, high: int) -> int | None:
    text = _arg(request, name)
    if not text:
        return default
    # int() alone would accept spaces, underscores and non-ASCII digits.
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not low <= int(text) <= high:
        raise BadRequest(
            f"The parameter {name} must be a whole number from {low} to {high}.", name, "Correct the value."
        )
    return int(text)


def _profile(request: Request, profile: Profile) -> Response:
    return _json(request, to_json(profile), 202 if profile.state in ("found", "loading") else 200)


def _payload(request: Request, answer: bytes | Profile) -> Response:
    return _profile(request, answer) if isinstance(answer, Profile) else _json(request, answer)


def _json(request: Request, body: bytes, status: int = 200) -> Response:
    return _body(request, body, _JSON, status)


def _body(
    request: Request, content: bytes | Body, content_type: str, status: int = 200, gzipped: bool = False
) -> Response:
    kept = content if isinstance(content, Body) else Body(content)
    body = kept.plain
    response = _Answer(status=status, content_type=content_type, headers=_headers())
    response.headers["Vary"] = "Accept-Encoding"
    if status == 200:
        response.set_etag(kept.tag, weak=True)
        if request.if_none_match.contains_weak(response.get_etag()[0] or ""):
            response.status_code = 304
            return response
    if gzipped and not _takes_gzip(request):
        body, gzipped = gzip.decompress(body), False
    elif not gzipped and len(body) >= _GZIP_FROM_BYTES and _takes_gzip(request):
        body, gzipped = kept.packed, True
    if gzipped:
        response.headers["Content-Encoding"] = "gzip"
    response.data = body
    return response


def _stream(request: Request, download: Download, content_type: str) -> Response:
    chunks = download.chunks
    headers = _headers() | {"Content-Disposition": _attachment(download.name), "Vary": "Accept-Encoding"}
    if download.gzipped and not _takes_gzip(request):
        chunks = download.plain()
    else:
        headers["Content-Length"] = str(download.size_bytes)
        if download.gzipped:
            headers["Content-Encoding"] = "gzip"
    response = _Answer(chunks, content_type=content_type, headers=headers, direct_passthrough=True)
    close = getattr(download.chunks, "close", None)
    if close is not None:
        response.call_on_close(close)
    return response


def _static(request: Request, name: str) -> Response:
    asset = find_asset(name)
    if asset is None:
        raise NotFoundError("There is no such file or route.", request.path, "docs/http.md lists the routes.")
    tag = f'W/"{asset.etag}"'
    # Respond adds the content security policy that TensorBoard expects for HTML.
    response: Response = http_util.Respond(
        request, asset.content, asset.content_type, expires=asset.expires_seconds, headers=[("ETag", tag)]
    )
    if asset.expires_seconds:
        response.headers["Cache-Control"] = f"private, max-age={asset.expires_seconds}, immutable"
    if request.if_none_match.contains_weak(asset.etag):
        return _Answer(status=304, headers=response.headers)
    return response


def _csv_name(place: Place, view_id: str, table: str) -> str:
    parts = (place.run, place.worker, place.span, view_id, table if table != view_id else "")
    return "-".join(part.replace("/", "_") for part in parts if part) + ".csv"


def _headers() -> dict[str, str]:
    return {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}


def _takes_gzip(request: Request) -> bool:
    return request.accept_encodings.quality("gzip") > 0


def _attachment(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
