"""Copies within a device: from which share on they are a finding, and who makes them."""

from __future__ import annotations

import pytest

from tb_plugin.rules._ordered_findings import findings_of
from tests.builders import TraceBuilder, kernel, memcpy, trace
from tests.rules.computing import said

WITHIN, TO = "Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pinned -> Device)"


def step(*copies: tuple[str, float], name: str = WITHIN, host: float = 1000) -> TraceBuilder:
    """A step of 1,000 us of which a product takes 500; copies by operators follow it."""
    builder = trace().device(0).step(1, 0, host).op("aten::mm", 0, 8).launches(kernel("gemm", 500, 10), at=1, dur=1)
    free = 510.0
    for i, (operator, dur) in enumerate(copies):
        at = 10 + 10 * i
        builder.python(f"train.py({i}): forward", at, 8, i + 1)
        builder.op(operator, at + 1, 6).op("aten::copy_", at + 2, 4)
        builder.launches(memcpy(dur, free, name, bytes=1 << 20), at=at + 3, dur=1, name="cudaMemcpyAsync")
        free += dur
    return builder


def test_copies_by_two_operators() -> None:
    """90 and 40 of 1,000 us; all of them go at best, none for sure."""
    seen = said("device_copies", step(("aten::cat", 90), ("aten::clone", 40)))
    assert seen is not None and (seen.least, seen.most) == (0, 130)
    assert seen.text == (
        "Copies within the device take 130 µs per step (13.0 %), 2.00 MiB, launched by aten::cat (69 %) and aten::clone "
        "(31 %), mostly at train.py(0): forward."
    )


@pytest.mark.parametrize(
    ("builder", "fires"),
    [
        (step(("aten::clone", 20)), True),
        (step(("aten::clone", 19.9)), False),
        (step(("aten::to", 130), name=TO), False),
        (step(("aten::copy_", 130), name="CopyDeviceToDevice"), True),
    ],
    ids=["2 %", "less", "to the device", "another vendor"],
)
def test_share_and_direction_decide(builder: TraceBuilder, fires: bool) -> None:
    assert (said("device_copies", builder) is not None) is fires


def test_the_saving_is_no_more_than_the_copies_and_their_operators() -> None:
    findings = findings_of(step(("aten::cat", 130), host=100).table(), None).all
    (found,) = [each for each in findings if each.rule.id == "device_copies"]
    saving = found.notice.saving
    assert saving is not None and saving.low_ns == 0 and 100_000 < saving.high_ns <= 130_000 * 1.03 + 4_000


def test_copies_of_two_devices_are_a_mean() -> None:
    builder = step(("aten::cat", 30)).device(1).op("aten::mm", 900, 5).launches(kernel("gemm", 5, 910, device=1))
    builder.op("aten::clone", 920, 5).launches(memcpy(6, 930, WITHIN, device=1), name="cudaMemcpyAsync")
    assert said("device_copies", builder) is None, "18 of 1,000 us in the mean"
