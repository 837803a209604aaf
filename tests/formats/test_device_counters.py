"""Counters of devices as Kineto writes them: the device, the unit, and series that share a name."""

from __future__ import annotations

from typing import Any

import pytest

from tb_plugin.analysis.recorded_units import UNITS, unit_in_name
from tb_plugin.devices import unit_of_counter
from tb_plugin.payloads import Counter, Counters
from tb_plugin.views.counters.view import RECORDED
from tests.builders import TraceBuilder, part, trace

PROCESS = "GPU 1 Counters"


def recorded(builder: TraceBuilder) -> dict[str, Counter]:
    payload = part(builder.table(), "counters", extra=(("width", "50"),)).payloads["counters"]
    assert isinstance(payload, Counters)
    return {counter.title: counter for counter in payload.counters if counter.key.startswith("recorded")}


@pytest.mark.parametrize(
    ("name", "value", "key", "unit", "shown"),
    [
        ("Power (W)", 300, "recorded_power", "watts", 300),
        ("Temperature (C)", 45, "recorded_temperature", "celsius", 45),
        ("SM Clock (MHz)", 1700, "recorded_frequency", "hertz", 1.7e9),
        ("SM Active (%)", 150, "recorded_share", "ratio", 1.5),
        ("Fan Speed (%)", 30, "recorded_share", "ratio", 0.3),
        ("Cycles (Current Kernel)", 85000, "recorded_value", "number", 85000),
        ("Memory (MB)", 7, "recorded_value", "number", 7),
        ("l1tex__t_bytes.sum", 10, "recorded_bytes", "bytes", 10),
        ("dram__bytes_read.sum.per_second", 10, "recorded_bandwidth", "bytes_per_second", 10),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 20, "recorded_share", "ratio", 0.2),
        ("SM Active", 10, "recorded_value", "number", 10),
    ],
)
def test_a_counter_has_its_unit_and_its_device(name: str, value: float, key: str, unit: str, shown: float) -> None:
    found = recorded(trace().op("a", 0, 90).counter(10, name, pid=PROCESS, tid=None, **{"": value}))
    counter = found[name]
    assert (counter.metric.key, counter.metric.unit, counter.device, counter.process) == (key, unit, "1", PROCESS)
    assert counter.mean[-1] == pytest.approx(shown) and counter.subtitle == "device 1"
    assert counter.max == pytest.approx(shown)


def test_counters_of_other_processes_belong_to_no_device() -> None:
    found = recorded(trace().op("a", 0, 90).counter(10, "load (%)", pid=7, v=50).counter(10, "x (ms)", pid=7, x=2, y=1))
    assert {title: (c.device, c.mean[-1], c.metric.unit) for title, c in found.items()} == {
        "load (%) · v": (None, 0.5, "ratio"),
        "x (ms) · x": (None, 2e6, "ns"),
        "x (ms) · y": (None, 1e6, "ns"),
    }


def test_series_that_share_a_name_are_told_apart() -> None:
    """Two rollups of one metric get one label: each moment has two values of it, in the order of the rollups."""
    builder = trace().op("a", 0, 90)
    for at in (10, 20, 30):
        for value in (at, 1000 + at):
            builder.counter(at, "SM Active", pid=PROCESS, tid=None, **{"": value})
        builder.counter(at, "Power (W)", pid=PROCESS, tid=None, **{"": at})
    found = recorded(builder)
    assert {title: (counter.low[-1], counter.high[-1]) for title, counter in found.items()} == {
        "SM Active · #1": (30, 30),
        "SM Active · #2": (1030, 1030),
        "Power (W)": (30, 30),
    }
    assert found["SM Active · #1"].device == "1"


@pytest.mark.parametrize("times", [(10, 10, 20), (10, 20, 20, 30, 30), (5,) * 17])
def test_values_that_are_replaced_at_once_are_one_series(times: tuple[int, ...]) -> None:
    builder = trace().op("a", 0, 90)
    for value, at in enumerate(times):
        builder.counter(at, "SM Active", pid=PROCESS, **{"": value})
    assert list(recorded(builder)) == ["SM Active"]


def test_every_known_unit_has_a_metric() -> None:
    assert {unit for unit, _ in UNITS.values()} | {"number"} == set(RECORDED)
    assert all(unit_in_name(f"x ({text})") == meaning for text, meaning in UNITS.items())


@pytest.mark.parametrize("name", ["", "(", "()", "x (", "Cycles (Current Kernel)", "x (W) y", "f(s, W)"])
def test_what_is_no_unit(name: str) -> None:
    assert unit_in_name(name) is None and unit_of_counter(name) == ""


@pytest.mark.parametrize("odd", [None, 0, "GPU x Counters", "GPU 1 Counters ", "a GPU 1 Counters"])
def test_processes_that_are_no_device(odd: Any) -> None:
    assert recorded(trace().op("a", 0, 9).counter(1, "Power (W)", pid=odd, v=1))["Power (W) · v"].device is None
