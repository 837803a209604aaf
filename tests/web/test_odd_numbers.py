"""Numbers in URLs may be anything: the answer is one, or says what is wrong with them, and never a bug of ours."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from werkzeug.test import Client

from tb_plugin.web.routes import BASE, Routes
from tests.service.fakes import workspace_of, write_trace

ODD = ["9" * 5000, "-" + "9" * 5000, "9223372036854775808", "999999999999999999", "-1", "0", "1e400", "nan", "٣", "²", "0x10",
       "1_0", " 1", "1.5", "-", "\x00", "1-" + "9" * 5000, "9" * 5000 + "ns", "0ns-" + "9" * 5000 + "ns"]  # fmt: skip
NUMBERS = {
    "steps": ["view/overview", "view/diff", "view/distributed", "download/window", "download/stacks"],
    "base_steps": ["view/diff"],
    "window": ["profile", "view/overview", "download/window"],
    "base_window": ["view/diff"],
    "limit": ["view/operators", "table/operators/operators"],
    "offset": ["table/operators/operators"],
    "min_calls": ["table/operators/operators"],
    "max_host_self_ns": ["table/operators/operators", "view/operators"],
    "start_ns": ["download/window", "view/events", "view/range", "view/find", "view/flows", "view/counters", "view/gaps",
                 "view/memory"],
    "end_ns": ["download/window", "view/events", "view/range", "view/find", "view/flows", "view/counters", "view/gaps",
               "view/memory"],
    "event": ["view/events", "view/flows"],
    "where": ["view/events"],
    "at_ns": ["view/memory"],
    "width": ["view/memory", "view/counters"],
    "bins": ["view/find"],
    "near_ns": ["view/find"],
    "most": ["view/flows"],
    "min_ns": ["view/gaps"],
    "level": ["tiles?tiles=0.0"],
    "tiles": ["tiles"],
    "thread": ["view/stacks", "download/stacks"],
    "span": ["profile", "view/overview"],
}  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    write_trace(folder / "logs" / "w.1.pt.trace.json")
    with workspace_of(folder / "logs", folder / "cache") as workspace:
        yield Client(Routes(lambda: workspace))


@pytest.mark.parametrize("name", NUMBERS)
def test_odd_numbers(client, name):
    for route in NUMBERS[name]:
        for value in ODD:
            url = f"{BASE}{route}{'&' if '?' in route else '?'}{name}={quote(value)}"
            answer = client.get(url)
            assert answer.status_code in (200, 400, 404), (url[:200], answer.status_code)
            if answer.status_code != 200:
                assert len(answer.data) < 2_000, (url[:200], answer.data[:300])
