"""What dispatches of tokens to experts say of their sizes, by hand: even, uneven, cut short, and no sizes at all."""

from __future__ import annotations

import pytest

from tb_plugin.analysis.parallelism.experts import token_dispatches
from tb_plugin.views.parallelism import VIEW
from tests.builders import kernel, trace


@pytest.mark.parametrize(
    ("sizes", "ratio"),
    [
        ("[20, 20, 20]", 1.0),
        (" [30,10 , 20] ", 1.5),
        ("[30, 10, ...]", None),
        ("[]", None),
        ("[60]", None),
        ("[0, 0]", None),
        ("[-1, 2]", None),
        (f"[1, {'9' * 5000}]", None),
    ],
)
def test_the_rank_that_gets_most_over_the_mean(sizes: str, ratio: float | None) -> None:
    stated = {"In split size": sizes}
    work = [kernel("deep_ep::dispatch", 5, at=10, **stated), kernel("fused_moe_kernel", 7, at=20)]  # type: ignore[arg-type]
    found = token_dispatches(trace().op("moe", 0, 9).launches(*work, at=1, dur=2).table())
    assert found.ratio.tolist() == ([] if ratio is None else [ratio])
    assert found.without == (1 if ratio is None else 0)
    assert found.experts_ns.tolist() == ([] if ratio is None else [7_000])


def test_experts_on_one_device_are_no_parallelism() -> None:
    fused, dispatch = kernel("fused_moe_kernel", 7, at=20), kernel("deep_ep::dispatch", 5, at=10)
    for work, is_missing in (((fused,), True), ((fused, dispatch), False)):
        table = trace().op("moe", 0, 9).launches(*work, at=1, dur=2).table()
        assert (VIEW.missing(table) is not None) is is_missing
