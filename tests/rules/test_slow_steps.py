"""Steps unlike the others, and devices that idle though little would save that."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tb_plugin.findings import finding
from tb_plugin.rules import slow_first_step, step_outliers
from tb_plugin.rules._base import Detection, Rule, Scene
from tb_plugin.rules._ordered_findings import findings_of
from tb_plugin.rules.low_utilization import is_explained
from tests.builders import TraceBuilder, kernel, memcpy, trace
from tests.rules.computing import saving


def on_host(*durs: int) -> TraceBuilder:
    """Steps of these durations on a host alone; an operator takes all of each but the last 10."""
    builder, ends = trace(), np.cumsum([0, *durs]).tolist()
    for number, (at, end) in enumerate(pairwise(ends)):
        builder.step(number, at, end - at).op("aten::add", at, end - at - 10)
    return builder


def look(rule: Rule, builder: TraceBuilder, *chosen: str) -> Detection | None:
    return rule.look(Scene(builder.table(), chosen or None))


def figures(found: Detection | None) -> dict[str, Any]:
    assert found is not None
    return {figure.metric.key: figure.value for figure in found.notice.figures}


FIRST, OUTLIERS = slow_first_step.RULE, step_outliers.RULE


@pytest.mark.parametrize(("first", "fires"), [(150, False), (151, True)])
def test_a_first_step_half_as_long_again(first: int, fires: bool) -> None:
    assert (look(FIRST, on_host(first, 100, 100, 100)) is not None) is fires


def test_a_first_step_is_told_with_what_differs_in_it() -> None:
    builder = on_host(400, 100, 104, 98)
    told = figures(look(FIRST, builder))
    assert (told["unusual_ns"], told["usual_step_ns"], told["excess_ns"]) == (400_000, 100_000, 300_000)
    assert (told["differs"], told["differs_ns"]) == ("Operators", 300_000)
    assert told["excess_ratio"] == 300 / 702
    # Others are between 98 and 104: one more is between 98 - 12 and 104 + 12. The second step takes no longer than usual.
    assert saving(FIRST, builder) == (400 - 116, 400 - 86)
    found = look(FIRST, builder)
    assert found is not None and found.events.tolist() == [0]


def test_a_first_step_needs_others_and_has_to_be_there() -> None:
    assert look(FIRST, on_host(400, 100, 100)) is None
    builder = on_host(400, 400, 100, 100, 100, 100)
    assert look(FIRST, builder) is None, "the second one is as long"
    assert look(FIRST, on_host(100, 400, 100, 100, 100), "1", "2", "3", "4") is None, "not the first one recorded"
    assert look(FIRST, trace().op("aten::add", 0, 100)) is None


def test_a_first_step_is_slow_beside_what_others_differ_by() -> None:
    """Others deviate by 10 from their median of 110: 8 times that is more than the excess."""
    assert look(FIRST, on_host(189, 100, 110, 120, 100, 120)) is None
    assert look(FIRST, on_host(191, 100, 110, 120, 100, 120)) is not None


def test_what_a_device_still_has_to_do_is_no_slow_first_step() -> None:
    """The host takes all of each step; the kernel of a step runs on into the next one, that of the first one as well."""
    builder = trace()
    for number in range(5):
        builder.step(number, 100 * number, 100).op("aten::mm", 100 * number, 100)
        builder.launches(kernel("k", 90, 100 * number + 95), at=100 * number + 90, dur=2)
    table = builder.table()
    assert (table.steps.end_ns - table.steps.start_ns).tolist() == [185_000, 100_000, 100_000, 100_000, 100_000]
    assert look(FIRST, builder) is None and look(OUTLIERS, builder) is None


@pytest.mark.parametrize(("slow", "fires"), [(120, False), (121, True)])
def test_an_outlier_is_a_fifth_longer(slow: int, fires: bool) -> None:
    assert (look(OUTLIERS, on_host(100, 100, slow, 100, 100)) is not None) is fires


def test_outliers_are_told_with_the_longest() -> None:
    builder = on_host(100, 140, 100, 102, 300, 100)
    told = figures(look(OUTLIERS, builder))
    assert (told["unusual_steps"], told["step"], told["unusual_ns"], told["usual_step_ns"]) == (
        2,
        "4",
        300_000,
        100_000,
    )
    assert (told["excess_ns"], told["differs"], told["differs_ns"]) == (240_000, "Operators", 200_000)
    # Others are between 100 and 102, one more between 96 and 106. At most the last step takes no longer than usual.
    assert saving(OUTLIERS, builder) == (440 - 2 * 106, 440 - 2 * 96)
    found = look(OUTLIERS, builder)
    assert found is not None and found.events.tolist() == [8, 2]
    text = str(finding(found.notice).text)
    assert text.startswith("2 steps take much longer than the median of 100 µs: the longest is 4 with 300 µs.")


def test_a_slow_first_step_is_no_outlier_as_well() -> None:
    builder = on_host(400, 100, 100, 100, 300, 100)
    assert look(FIRST, on_host(400, 100, 100, 100)) is not None
    assert look(OUTLIERS, on_host(400, 100, 100, 100)) is None
    # One of 300 is there as well: the first one is not alone, and stands among the outliers.
    assert look(FIRST, builder) is None and figures(look(OUTLIERS, builder))["unusual_steps"] == 2


def test_the_step_after_a_slow_one_may_take_less_as_well() -> None:
    assert saving(OUTLIERS, on_host(100, 100, 100, 200, 110, 100))[1] == 200 - 80 + 10


def test_one_cause_of_idle_time_is_what_differs_on_a_device() -> None:
    builder = trace()
    for number, (at, dur) in enumerate(((0, 100), (100, 100), (200, 100), (300, 200), (500, 100))):
        builder.step(number, at, dur).op("aten::mm", at, 5).launches(kernel("k", 70, at + 5), at=at + 1, dur=1)
    told = figures(look(OUTLIERS, builder))
    assert (told["step"], told["differs"], told["differs_ns"]) == ("3", "Python", 100_000)


def saving_now_and_then(collects: bool = False) -> TraceBuilder:
    """Five steps of 100 on host and device, the fourth with 100 more: a line saves, or the interpreter collects garbage."""
    builder = trace()
    for number, (at, dur) in enumerate(((0, 100), (100, 100), (200, 100), (300, 200), (500, 100))):
        builder.step(number, at, dur).python("train.py(9): step", at + 1, dur - 2)
        builder.op("aten::mm", at + 2, 5).launches(kernel("k", 70, at + 7), at=at + 3, dur=1)
        if dur > 100:
            builder.python("Python GC" if collects else "train.py(30): save", at + 90, 105)
            builder.python("torch/serialization.py(5): save", at + 91, 90)
    return builder


def test_a_slow_step_is_told_with_the_line_in_which_it_takes_longer() -> None:
    found = look(OUTLIERS, saving_now_and_then())
    told = figures(found)
    # In the others line 9 has all of the step but the operator's 5: in the slow one 105 of them are in line 30.
    assert (told["differs"], told["differs_row"], told["differs_row_ns"]) == ("Python", "train.py(30): save", 105_000)
    assert found is not None and found.notice.evidence is not None
    assert (found.notice.evidence.view, found.notice.evidence.params) == ("idle", {"steps": "3"})
    text = str(finding(found.notice).text)
    assert text.endswith(
        "Largest difference: Python (+100 µs). On the CPU, train.py(30): save takes 105 µs longer, including waits for the "
        "GPU."
    )


def test_a_slow_step_without_stacks_names_the_operator_and_on_the_device_the_kernel() -> None:
    told = figures(look(OUTLIERS, on_host(100, 100, 100, 300, 100)))
    assert (told["differs_row"], told["differs_row_ns"]) == ("aten::add", 200_000)
    builder = trace()
    for number, (at, dur) in enumerate(((0, 100), (100, 100), (200, 100), (300, 200), (500, 100))):
        builder.step(number, at, dur).op("aten::mm", at, 2).launches(kernel("k", dur - 10, at + 2), dur=1)
    told = figures(look(OUTLIERS, builder))
    assert (told["differs"], told["differs_row"], told["differs_row_ns"]) == ("Kernels", "k", 100_000)


def test_the_advice_is_that_of_the_cause() -> None:
    todo = saving_now_and_then().table().recorder.todo
    slow, collecting = (look(OUTLIERS, saving_now_and_then(collects)) for collects in (False, True))
    assert slow is not None and slow.notice.todo == todo("step_outliers.inference"), "no backward pass"
    training = look(OUTLIERS, saving_now_and_then().op("MmBackward0", 10, 2))
    assert training is not None and training.notice.todo == todo("step_outliers")
    assert collecting is not None and collecting.notice.todo == todo("garbage_collection")


def test_the_order_of_events_changes_nothing() -> None:
    for rule, durs in ((FIRST, (400, 100, 100, 100)), (OUTLIERS, (100, 200, 100, 200, 100, 100))):
        shuffled = on_host(*durs)
        random.Random(5).shuffle(shuffled.events)
        one, other = look(rule, on_host(*durs)), look(rule, shuffled)
        assert one is not None and other is not None
        assert one.notice == other.notice and one.events.tolist() == other.events.tolist()


# -- devices that idle -----------------------------------------------------------------------------------


def told_of(builder: TraceBuilder) -> dict[str, dict[str, Any]]:
    return {
        each.rule.id: {f.metric.key: f.value for f in each.notice.figures}
        for each in findings_of(builder.table(), None).all
    }


def idle(loading: int) -> TraceBuilder:
    """A device works for 400 of 1000: before, the loader is awaited for so long, after that Python."""
    builder = trace().step(1, 0, 1000).annotation("enumerate(DataLoader)#X.__next__", 0, loading)
    return builder.op("aten::mm", 595, 5).launches(kernel("k", 400, 600), at=598, dur=1)


def test_a_device_that_idles_is_told_with_the_largest_cause() -> None:
    found = told_of(idle(5))
    assert found.keys() == {"low_utilization"}
    assert found["low_utilization"]["idle_cause"] == "Python"
    assert found["low_utilization"]["idle_cause_ratio"] == 590 / 600


def test_what_the_host_was_in_meanwhile_is_told() -> None:
    """A kernel that was launched at 2 begins at 600 and nobody knows why; until 600 the host is in a copy that waits."""
    builder = trace().step(1, 0, 1000).op("aten::mm", 0, 5).launches(kernel("k", 100, 600), at=1, dur=1)
    builder.python("train.py(7): load", 5, 600).op("aten::copy_", 8, 595)
    builder.launches(memcpy(2, 701), at=10, dur=590, name="cudaMemcpyAsync")
    for at in (720, 730, 740):  # usually work begins 3 after its launch
        builder.op("aten::add", at, 2).launches(kernel("k", 5, at + 4), dur=1)
    (found,) = findings_of(builder.table(), None).all
    said = finding(found.notice)
    assert said.text == (
        "GPU 0 runs kernels for only 11.5 % of the steps. The largest cause of its idle time is Unexplained (67.4 %): the "
        "CPU is in cudaMemcpyAsync, called by aten::copy_, at train.py(7): load."
    )
    assert said.todo.startswith("The CPU waits because the GPU was busy")


def test_findings_that_explain_idle_time_say_it_all() -> None:
    assert told_of(idle(500)).keys() == {"data_loading"}


def test_half_of_the_idle_time_is_explained() -> None:
    scene = Scene(idle(0).table())
    assert is_explained(scene, 300_000) and not is_explained(scene, 299_999)
    assert not is_explained(Scene(on_host(100).table()), 100_000), "no device"
