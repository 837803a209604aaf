"""Data loading: who loads, and what a batch that is ready would save."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder, kernel, trace
from tests.rules.test_host_waits import found, saving, text, whole


def loading(kind: str, dur: int = 400) -> TraceBuilder:
    """A step of 1 ms: the loader, then a kernel of 100 us that is launched when it is done."""
    builder = trace().step(1, 0, 1000).annotation(f"enumerate(DataLoader)#_{kind}DataLoaderIter.__next__", 10, dur)
    return builder.op("aten::mm", 10 + dur, 15).launches(kernel("mm", 100), at=10 + dur, dur=10)


@pytest.mark.parametrize(
    ("kind", "words", "advice", "not_advice"),
    [
        ("SingleProcess", "Data is loaded in the main process.", "num_workers", "persistent_workers"),
        ("MultiProcessing", "The data loader workers are too slow.", "persistent_workers", "pinned memory"),
        ("Other", "of 1.00 ms per step.", "num_workers", "persistent_workers"),
    ],
)
def test_it_says_who_loads(kind: str, words: str, advice: str, not_advice: str) -> None:
    each = found(loading(kind))["data_loading"]
    assert text(each).endswith(words)
    assert advice in each.notice.todo and not_advice not in each.notice.todo


def test_a_quarter_of_the_wait_may_stay() -> None:
    """The device idles for 400 us of loading: no bound, with its margin, is above the time that the finding names."""
    assert saving(found(loading("SingleProcess"))["data_loading"]) == (300, whole(400))


def test_what_the_device_works_meanwhile_is_not_saved() -> None:
    """Of 400 us of loading the device works for 240: of the 160 that remain three quarters go at least."""
    builder = trace().step(1, 0, 600).op("aten::mm", 0, 10).launches(kernel("before", 245), at=0, dur=5)
    builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 400)
    builder.op("aten::mm", 410, 15).launches(kernel("after", 600), at=410, dur=10)
    assert saving(found(builder)["data_loading"]) == (120, whole(160))


@pytest.mark.parametrize(("first", "advice"), [(401, "once: persistent_workers"), (400, "more worker processes")])
def test_the_first_batch_waits_for_the_start_of_the_workers(first: int, advice: str) -> None:
    """It takes more than the two others of 200 us together."""
    builder = trace().step(1, 0, 1050)
    for at, dur in ((0, first), (500, 200), (800, 200)):
        builder.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, dur)
        builder.op("aten::mm", at + dur, 15).launches(kernel("mm", 50), at=at + dur, dur=10)
    each = found(builder)["data_loading"]
    assert advice in each.notice.todo
    assert ("The first batch alone takes 401 µs" in text(each)) == (first == 401)
