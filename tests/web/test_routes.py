"""HTTP: every route's answer, its errors, caching and compression. docs/http.md is the contract."""

from __future__ import annotations

import gzip
import json
import re

import pyarrow as pa
import pytest
from tensorboard.backend.security_validator import SecurityValidatorMiddleware
from werkzeug.test import Client

from tb_plugin.service.workspace import Workspace
from tb_plugin.web import static
from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import SlowPool, until, workspace_of, write_trace

ROUTES = [
    "runs",
    "profile",
    "view/overview",
    "table/operators/operators",
    "download/original",
    "download/window",
    "download/stacks",
    "download/report",
]


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    write_trace(logs / "a" / "w.1.pt.trace.json", *(f"op{i}" for i in range(150)))
    write_trace(logs / "b" / "w.1.pt.trace.json")
    (tmp_path / "secret.json").write_text("{}")
    return logs


@pytest.fixture
def client(logs, tmp_path):
    with workspace_of(logs, tmp_path / "cache") as workspace:
        yield Client(Routes(lambda: workspace))


def get(client, route, **more):
    return client.get(BASE + route, **more)


def error_of(response):
    assert response.content_type == "application/json"
    body = response.get_json()
    assert set(body) == {"error"} and set(body["error"]) == {"what", "where", "do"}
    assert body["error"]["what"]
    return body["error"]


def test_runs(client):
    response = get(client, "runs")
    assert response.status_code == 200 and response.content_type == "application/json"
    body = response.get_json()
    assert body["kind"] == "catalog" and not body["scanning"]
    assert [run["name"] for run in body["runs"]] == ["a", "b"]


def test_a_scan_that_finds_nothing_new_leaves_the_answer_as_it_is(tmp_path, logs):
    """The page asks every five seconds, and the list of a thousand workers is large."""
    with workspace_of(logs, tmp_path / "cache") as workspace:
        client = Client(Routes(lambda: workspace))
        tag = get(client, "runs").headers["ETag"]
        before = workspace.catalog._last_scan_unix_ms
        assert until(lambda: workspace.catalog._last_scan_unix_ms > before), "another scan"
        assert get(client, "runs", headers={"If-None-Match": tag}).status_code == 304
        write_trace(logs / "b" / "w.2.pt.trace.json")
        assert until(lambda: get(client, "runs", headers={"If-None-Match": tag}).status_code == 200)


def test_an_empty_log_directory_says_when_it_was_looked_at(tmp_path):
    (tmp_path / "none").mkdir()
    with workspace_of(tmp_path / "none", tmp_path / "cache") as workspace:
        client = Client(Routes(lambda: workspace))
        first = get(client, "runs").get_json()["last_scan_unix_ms"]
        assert until(lambda: get(client, "runs").get_json()["last_scan_unix_ms"] > first)


def test_profile_and_view(client):
    assert get(client, "profile?start=0").status_code == 202
    profile = get(client, "profile?run=a")
    assert profile.status_code == 200 and profile.get_json()["state"] == "ready"
    view = get(client, "view/overview?run=a").get_json()
    assert view["kind"] == "view" and view["id"] == "overview"


def test_not_loaded_yet_is_202(logs, tmp_path):
    with workspace_of(logs, tmp_path / "cache", SlowPool(1)) as workspace:
        client = Client(Routes(lambda: workspace))
        for route in ("view/overview", "table/operators/operators", "table/operators/operators?format=csv"):
            response = get(client, route)
            assert (response.status_code, response.get_json()["state"]) == (202, "loading")
        assert until(lambda: get(client, "profile").status_code == 200)
        assert get(client, "view/overview").status_code == 200


def test_table_is_sorted_filtered_and_paged(client):
    url = "table/operators/operators?run=a"
    table = get(client, f"{url}&sort=name&desc=0&offset=2&limit=3").get_json()
    assert [row["name"] for row in table["rows"]] == ["op10", "op100", "op101"]
    assert (table["total_rows"], table["matched_rows"], table["offset"], table["limit"]) == (150, 150, 2, 3)
    assert get(client, f"{url}&search=OP14").get_json()["matched_rows"] == 11
    assert get(client, f"{url}&search=/^op14$/").get_json()["matched_rows"] == 1
    assert get(client, f"{url}&where=name:op7").get_json()["matched_rows"] == 1
    assert get(client, url).get_json()["limit"] == 100


def test_a_window_of_a_profile(client):
    place = "run=a&window=6"
    profile = get(client, f"profile?{place}").get_json()
    assert (profile["window"]["first_step"], profile["window"]["trace_steps"]) == ("6", 2)
    assert [step["label"] for step in profile["steps"]] == ["6"] and profile["trace_steps"] == ["5", "6"]
    view = get(client, f"view/operators?{place}").get_json()
    assert view["coverage"]["window"] == profile["window"] and not view["coverage"]["complete"]
    assert view["payloads"]["operators"]["total_rows"] == 75
    assert get(client, f"table/operators/operators?{place}&limit=1").get_json()["total_rows"] == 75
    events = get(client, f"download/window?{place}").get_json()["traceEvents"]
    assert sum(event.get("cat") == "cpu_op" for event in events) == 75
    assert get(client, "profile?run=a").get_json()["window"] is None, "the profile itself is open whole"


def test_stacks_of_a_profile(client):
    plain = get(client, "download/stacks?run=b")
    assert plain.status_code == 200 and plain.content_type == "text/plain; charset=utf-8"
    assert plain.get_data(as_text=True) == "aten::mm 10000\naten::add 10000\n"
    assert 'filename="w.1.pt.trace.host.folded.txt"' in plain.headers["Content-Disposition"]
    packed = get(client, "download/stacks?run=b", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.data) == plain.data
    assert get(client, "download/stacks?run=b&steps=6&of=operators&thread=1").data == b"aten::add 10000\n"
    response = get(client, "download/stacks?run=b&format=speedscope")
    assert response.content_type == "application/json"
    assert [profile["endValue"] for profile in response.get_json()["profiles"]] == [20_000]


def test_stacks_that_are_not_there(client):
    assert error_of(get(client, "download/stacks?run=b&weight=device"))["where"] == "weight"
    assert get(client, "download/stacks?run=b&weight=device").status_code == 404
    for wrong in ("format=svg", "of=x", "weight=x", "thread=x", "steps=99"):
        response = get(client, f"download/stacks?run=b&{wrong}")
        assert response.status_code == 400 and error_of(response)


@pytest.mark.parametrize("window", ["7-", "x", "5-6-7", "%3Cb%3E"])
def test_what_is_no_window_is_400(client, window):
    response = get(client, f"profile?run=a&window={window}")
    assert response.status_code == 400 and error_of(response)["where"] == "window"


def test_a_window_that_the_trace_does_not_have(client):
    profile = get(client, "profile?run=a&window=9").get_json()
    assert profile["state"] == "failed" and "5, 6" in profile["problem"]["do"]
    assert get(client, "view/operators?run=a&window=9").status_code == 400


def test_tiles(client):
    tiles = get(client, "tiles?run=a&level=0&tiles=0.0,0.1", headers={"Accept-Encoding": "gzip"})
    assert tiles.content_type == "application/vnd.apache.arrow.stream"
    assert tiles.headers["Content-Encoding"] == "gzip"
    plain = get(client, "tiles?run=a&level=0&tiles=0.0,0.1")
    assert "Content-Encoding" not in plain.headers and gzip.decompress(tiles.data) == plain.data
    table = pa.ipc.open_stream(plain.data).read_all()
    assert table.schema.metadata[b"tiles"] == b"2" and "op14" in table["name"].to_pylist()
    assert (
        get(client, "tiles?run=a&level=0&tiles=0.0,0.1", headers={"If-None-Match": plain.headers["ETag"]}).status_code
        == 304
    )


@pytest.mark.parametrize(
    "query", ["", "level=0", "level=0&tiles=x", "level=x&tiles=0.0", "level=98&tiles=0.0", "level=0&tiles=99.0"]
)
def test_what_is_no_tile_is_400(client, query):
    response = get(client, f"tiles?run=a&{query}")
    assert response.status_code == 400 and error_of(response)


def test_csv(client):
    response = get(client, "table/operators/operators?run=a&format=csv&search=op14")
    assert response.content_type == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="a-operators.csv"')
    assert response.text.count("\r\n") == 12


def test_csv_of_what_was_found(client):
    """Search and filters of events are not those of the columns: neither is applied to the rows again."""
    for route, rows in (
        ("find/hits?in=args&search=CPU_OP", 150),
        ("find/hits?search=op14", 11),
        ("find/hits?search=op14&exact=1&sort=dur_ns", 1),
        ("find/names?search=op14&where=category:cpu_op", 11),
        ("events/instances?where=category:cpu_op", 150),
    ):
        response = get(client, f"table/{route}&run=a&format=csv")
        assert (response.status_code, response.text.count("\r\n")) == (200, rows + 1), route
        assert get(client, f"table/{route}&run=a").get_json()["matched_rows"] == rows


def test_original_is_the_stored_file(client, logs):
    response = get(client, "download/original?run=a", headers={"Accept-Encoding": "gzip"})
    assert response.data == (logs / "a" / "w.1.pt.trace.json").read_bytes()
    assert int(response.headers["Content-Length"]) == len(response.data)
    assert "Content-Encoding" not in response.headers
    assert 'filename="w.1.pt.trace.json"' in response.headers["Content-Disposition"]


def test_window_with_and_without_gzip(client):
    packed = get(client, "download/window?run=b&steps=5", headers={"Accept-Encoding": "gzip"})
    plain = get(client, "download/window?run=b&steps=5")
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.data) == plain.data
    names = {event["name"] for event in json.loads(plain.data)["traceEvents"] if event["ph"] == "X"}
    assert names == {"ProfilerStep#5", "aten::mm"}


@pytest.mark.parametrize(
    ("route", "status"),
    [
        ("profile?run=none", 404),
        ("profile?worker=none", 404),
        ("profile?span=7", 404),
        ("profile?worker=w", 400),
        ("profile?start=maybe", 400),
        ("view/none?run=a", 404),
        ("view/diff?run=a&base_run=none", 404),
        ("view/diff?run=a&base_steps=99", 400),
        ("view/diff?run=a&measure=calls", 400),
        ("view/diff?run=a&per=day", 400),
        ("table/diff/none?run=a", 404),
        ("view/memory?run=a&device=cuda:9", 400),
        ("view/", 404),
        ("view/overview?run=a&steps=99", 400),
        ("view/operators?run=a&phase=none", 400),
        ("view/phases?run=a&pattern=(", 400),
        ("table/operators?run=a", 404),
        ("table/operators/none?run=a", 404),
        ("table/operators/operators/more?run=a", 404),
        ("table/operators/operators?run=a&limit=0", 400),
        ("table/operators/operators?run=a&limit=1001", 400),
        ("table/operators/operators?run=a&limit=1_0", 400),
        ("table/operators/operators?run=a&offset=-1", 400),
        ("table/operators/operators?run=a&offset=" + "9" * 40, 400),
        ("table/operators/operators?run=a&desc=yes", 400),
        ("table/operators/operators?run=a&sort=none", 400),
        ("table/operators/operators?run=a&where=name", 400),
        ("table/operators/operators?run=a&search=/(/", 400),
        ("table/operators/operators?run=a&format=xml", 400),
        ("download/window?run=a&start_ns=x", 400),
        ("download/window?run=a&start_ns=5&end_ns=5", 400),
        ("download/other?run=a", 404),
        ("download/original?run=none", 404),
        ("nonsense", 404),
        ("", 404),
        ("assets/none.js", 404),
    ],
)
def test_errors_have_one_shape(client, route, status):
    response = get(client, route)
    assert response.status_code == status
    error_of(response)
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_unreadable_trace_is_422(client, logs):
    (logs / "b" / "w.1.pt.trace.json").write_text("no trace")
    (logs / "b" / "w.1.pt.trace.json").touch()
    assert get(client, "profile?run=b").get_json()["state"] == "failed"
    response = get(client, "view/overview?run=b")
    assert response.status_code == 422
    error_of(response)


@pytest.mark.parametrize(
    "route",
    [
        "../../../secret.json",
        "%2e%2e/%2e%2e/secret.json",
        "assets/../../plugin.py",
        "assets/..%2f..%2fplugin.py",
        "assets//etc/passwd",
        "__init__.py",
        "download/original?run=../secret.json",
        "download/original?run=a&worker=../../secret",
        "view/..%2foverview",
    ],
)
def test_nothing_outside_is_readable(client, route):
    response = get(client, route)
    assert response.status_code == 404
    error_of(response)


@pytest.mark.parametrize("route", [*ROUTES, "index.html"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_get(client, route, method):
    response = client.open(BASE + route, method=method)
    assert response.status_code == 405 and response.headers["Allow"] == "GET, HEAD"
    error_of(response)


@pytest.mark.parametrize("route", [f"{route}?run=a" for route in ROUTES] + ["index.html", "index.js"])
def test_head_has_no_body(client, route):
    full, head = get(client, route), client.head(BASE + route)
    assert (head.status_code, head.data) == (full.status_code, b"")


@pytest.mark.parametrize("route", ["runs", "profile?run=a", "view/overview?run=a", "table/operators/operators?run=a"])
def test_etag(client, route):
    get(client, "profile?run=a")
    first = get(client, route)
    tag = first.headers["ETag"]
    again = get(client, route, headers={"If-None-Match": tag})
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
    assert get(client, route, headers={"If-None-Match": '"other"'}).status_code == 200


def test_gzip_only_when_accepted(client):
    url = "table/operators/operators?run=a"
    plain = get(client, url)
    packed = get(client, url, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    refused = get(client, url, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in plain.headers and "Content-Encoding" not in refused.headers
    assert packed.headers["Content-Encoding"] == "gzip" and packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.data) == plain.data == refused.data


def test_a_bug_is_500_and_logged(client, caplog, monkeypatch):
    monkeypatch.setattr(Workspace, "runs", lambda self: 1 / 0)
    response = get(client, "runs")
    assert response.status_code == 500
    assert "ZeroDivisionError" in caplog.text and "Zero" not in response.text
    error_of(response)


def test_page_that_was_not_built(client, monkeypatch, tmp_path):
    monkeypatch.setattr(static, "BUNDLE", tmp_path / "none")
    monkeypatch.setattr(static.find_asset, "__defaults__", (tmp_path / "none",))
    page, entry = get(client, "index.html"), get(client, "index.js")
    assert "make build" in page.text and "Content-Security-Policy" in page.headers
    assert entry.content_type.startswith("text/javascript") and "export function render" in entry.text


def test_bundle(client, monkeypatch, tmp_path):
    bundle = tmp_path / "static"
    (bundle / "assets").mkdir(parents=True)
    (bundle / "index.html").write_text("<p>page</p>")
    (bundle / "assets" / "app-1f2e.js").write_text("export {}")
    (bundle / "assets" / "link.js").symlink_to(tmp_path / "secret.json")
    monkeypatch.setattr(static.find_asset, "__defaults__", (bundle,))
    page, asset = get(client, "index.html"), get(client, "assets/app-1f2e.js")
    assert page.text == "<p>page</p>" and "no-cache" in page.headers["Cache-Control"]
    assert asset.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert get(client, "index.html", headers={"If-None-Match": page.headers["ETag"]}).status_code == 304
    assert get(client, "assets/link.js").status_code == 404
    for response in (page, asset):
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_names_from_outside_are_quoted_in_headers(client, logs):
    (logs / "a" / "w.1.pt.trace.json").rename(logs / "a" / 'w"ü;.1.pt.trace.json')
    value = get(client, "download/original?run=a").headers["Content-Disposition"]
    assert re.fullmatch(r"attachment; filename=\"[\w.-]+\"; filename\*=UTF-8''[\w.%-]+", value)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_tensorboard_finds_nothing_to_warn_about_in_any_answer(logs, tmp_path, caplog, method):
    """It looks at the headers of each one: an answer without a body has a type as well."""
    with workspace_of(logs, tmp_path / "cache") as workspace:
        client = Client(SecurityValidatorMiddleware(Routes(lambda: workspace)))
        for route in (*ROUTES, "index.html", "index.js", "view/none", "table/operators/operators?format=csv"):
            named = f"{route}{'&' if '?' in route else '?'}run=a"
            answer = client.open(BASE + named, method=method)
            assert answer.headers["Content-Type"], route
            if tag := answer.headers.get("ETag"):
                again = client.open(BASE + named, method=method, headers={"If-None-Match": tag})
                assert (again.status_code, again.data) == (304, b""), route
                assert again.headers["Content-Type"] == answer.headers["Content-Type"], route
                assert "Content-Length" not in again.headers and "Content-Encoding" not in again.headers
        assert client.post(BASE + "runs").status_code == 405
    assert "In 3.0, this warning will become an error" not in caplog.text
