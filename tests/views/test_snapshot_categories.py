"""What blocks of a snapshot are for: recorded, by hand, beside PyTorch's own judgement, beside the truth of the samples."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.memory_categories import ORDER, When
from tb_plugin.analysis.snapshot.categories import bytes_by_category, categories_of_blocks
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, devices_of, levels_of
from tb_plugin.analysis.snapshot.training_stages import lives_of
from tb_plugin.model.snapshot.assemble import assemble
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Breakdown, Notices
from tests.builders import part, payload_of
from tests.depth import examples
from tests.formats.sources import DATA
from tests.snapshots import event, frames, read, segment, snapshot
from tests.synthetic_memory import generator

Json = dict[str, Any]
MAIN = "train.py:9:<module>"
MODULE = "/x/torch/nn/modules/module.py:1:_call_impl"
STACKS = {
    "setup": frames("model.py:3:__init__", MODULE, MAIN),
    "data": frames("/x/torch/utils/data/_utils/collate.py:4:collate", MAIN),
    "forward": frames("model.py:9:forward", MODULE, MAIN),
    "loss": frames("train.py:5:loss", MAIN),
    "backward": frames("/x/torch/autograd/graph.py:8:_engine_run_backward", MAIN),
    "engine": [],
    "step": frames("/x/torch/optim/adam.py:7:adam", MAIN),
    "apex": frames("/x/apex/optimizers/fused_adam.py:7:step", MAIN),
    "clear": frames("/x/torch/optim/optimizer.py:7:zero_grad", MAIN),
}
STAGE = {
    "forward": When.FORWARD, "backward": When.BACKWARD, "engine": When.BACKWARD,
    "step": When.STEP, "apex": When.STEP, "clear": When.CLEAR,
}  # fmt: skip


def one(made: Snapshot) -> DeviceLevels:
    return max(devices_of(made), key=lambda held: held.count)


def freed(address: int, size: int, stack: list[Json]) -> list[Json]:
    return [event(action, address, size, frames=stack) for action in ("free_requested", "free_completed")]


def training(backward: str = "backward", step: str = "step") -> list[Json]:
    """A parameter, and two steps; what is released states the stack of its allocation."""
    events = [event("alloc", 1 << 20, 1024, frames=STACKS["setup"])]
    for at in (0, 100_000):
        rows = [
            (at + 10, 640, "data"), (at + 20, 4096, "forward"), (at + 30, 512, "loss"),
            (at + 40, 1024, backward), (at + 50, 2048, backward), (at + 60, 256, backward),
        ]  # fmt: skip
        for address, size, stack in rows:
            events.append(event("alloc", address, size, frames=STACKS[stack]))
        for address, size, stack in (rows[4], rows[5], rows[1], rows[2]):
            events += freed(address, size, STACKS[stack])
        if not at:
            events.append(event("alloc", 2 << 20, 2048, frames=STACKS[step]))
        scratch = event("alloc", at + 70, 128, frames=STACKS[step])
        events += [
            scratch,
            event("alloc", at + 80, 96, frames=STACKS["apex" if step == "step" else "step"]),
            *freed(at + 70, 128, STACKS[step]),
        ]
        events += freed(at + 80, 96, STACKS[step]) + freed(at + 40, 1024, STACKS["clear"])
        events += freed(at + 10, 640, STACKS["data"])
    return events


@pytest.mark.parametrize("backward", ["backward", "engine"])
@pytest.mark.parametrize("step", ["step", "apex"])
def test_a_training_by_hand(backward: str, step: str) -> None:
    held = one(snapshot(training(backward, step)))
    found = categories_of_blocks(held)
    each = ["input", "activation", "activation", "gradient", "autograd_detail", "temporary"]
    assert found.source == "derived"
    assert [ORDER[code] for code in found.of] == [
        "parameter", *each, "optimizer_state", "unknown", "temporary", *each, "unknown", "temporary",
    ]  # fmt: skip
    assert found.texts(np.array([0, 4])).to_pylist() == ["parameter", "gradient"]


def test_what_is_older_than_the_history_goes_by_the_stack_that_the_snapshot_states() -> None:
    kept = segment(0x100000, 8192, [(1024, "active_allocated"), (2048, "active_allocated"), (512, "active_allocated")])
    for block, stack in zip(kept["blocks"], ("setup", "step", "engine"), strict=False):
        block["frames"] = STACKS[stack]
    held = one(snapshot(training()[1:], [kept]))
    codes = categories_of_blocks(held)
    assert [ORDER[code] for code in codes.of[:3]] == ["parameter", "optimizer_state", "unknown"]


def test_annotations_of_optimizers_and_steps_count_where_stacks_are_silent() -> None:
    silent = [e | {"frames": [] if e["frames"] == STACKS["clear"] else e["frames"]} for e in training()]
    silent = [e | {"time_us": 1_000_000 + i} for i, e in enumerate(silent)]
    last = len(silent) - 1
    marks = [
        {"name": "Optimizer.zero_grad#Adam.zero_grad", "stage": stage, "device": 0, "time_us": 1_000_000 + at}
        for stage, at in (("START", last - 3), ("END", last - 1))
    ]
    held = one(snapshot(silent, external_annotations=marks))
    assert When.CLEAR in lives_of(held).end.tolist()
    assert When.CLEAR not in lives_of(one(snapshot(silent))).end.tolist()


@pytest.mark.parametrize(
    ("stack", "source"),
    [([], "no stacks"), (frames(MAIN), "no stages"), (STACKS["step"], "no pass")],
)
def test_where_nothing_is_known_the_page_says_why(stack: list[Json], source: str) -> None:
    made = snapshot([event("alloc", 8, 512, frames=stack)])
    assert categories_of_blocks(one(made)).source == source
    found = part(made, "allocations")
    assert "held_categories" not in found.payloads
    told = found.payloads["data_quality"]
    assert isinstance(told, Notices) and "categories_missing" in [notice.rule for notice in told.notices]
    assert found.frames["held_blocks"].data["memory_category"].null_count == 1


def test_recorded_categories_are_taken_as_they_are() -> None:
    events = [event("alloc", 8 * i, 512, frames=[], category=what) for i, what in enumerate(("gradient", "mine", None))]
    held = one(snapshot(events))
    found = categories_of_blocks(held)
    assert found.source == "recorded"
    assert found.texts(np.arange(3)).to_pylist() == ["gradient", "mine", "unknown"]
    assert bytes_by_category(held, np.arange(3)) == {"gradient": 512, "mine": 512, "unknown": 512}


def plain(kinds: list[str]) -> list[tuple[int, int]]:
    """Stage of each allocation, and forward passes until then, one after the other."""
    found, stage, passes = [], When.BETWEEN, 0
    told = any(kind != "engine" for kind in kinds)
    for kind in kinds:
        now = STAGE.get(kind) if told or kind != "engine" else None
        if now is None:
            found.append((int(stage if stage == When.FORWARD and kind != "data" else When.BETWEEN), passes))
            continue
        passes += now == When.FORWARD and stage != When.FORWARD
        stage = now
        found.append((int(now), passes))
    return found


@examples(suite=20, deep=500)
@given(kinds=st.lists(st.sampled_from(sorted(STACKS)), min_size=1, max_size=20))
def test_stages_recounted(kinds: list[str]) -> None:
    held = one(snapshot([event("alloc", 512 * (i + 1), 512, frames=STACKS[kind]) for i, kind in enumerate(kinds)]))
    lives = lives_of(held)
    assert list(zip(lives.begin.tolist(), lives.begin_pass.tolist(), strict=True)) == plain(kinds)


@pytest.mark.parametrize(("scene", "steps"), [("fragmented", 12), ("leaking", 10), ("out_of_memory", 40)])
def test_the_truth_of_the_samples(scene: str, steps: int) -> None:
    """The generator knows what each allocation is for; block i of the history is its i-th allocation."""
    allocator = generator.RUNS[scene](0, steps)
    held = one(assemble(read(pickle.dumps(allocator.snapshot()))))
    codes, rows = categories_of_blocks(held).of, held.allocated(levels_of(held).peak())
    assert len(allocator.purposes) == len(codes)
    size = held.block("size")
    same = sum(int(size[row]) for row in rows if ORDER[codes[row]] == allocator.purposes[row])
    assert same >= 0.95 * size[rows].sum()
    bar = payload_of(part(held.snapshot, "allocations"), "held_categories", Breakdown)
    assert sum(one.value for one in bar.parts) == bar.total == levels_of(held).allocated.max()


RECORDED = Path(__file__).parent / "recorded"


def as_an_allocator_records(path: Path, on_device: bool) -> tuple[DeviceLevels, Counter[tuple[str, str]]]:
    """A recorded history without its categories, and the bytes at the peak by recorded and derived category.

    PyTorch's converter releases and allocates a tensor that is written in place; an allocator does not. ``on_device``: the
    backward pass runs in a thread of the engine, whose allocations have no Python stack.
    """
    content = path.read_bytes()
    told = pickle.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    device = next(i for i, trace in enumerate(told["device_traces"]) if trace)
    trace, kept, now, most, peak = told["device_traces"][device], [], {}, 0, {}
    level, i = 0, 0
    while i < len(trace):
        each, again = trace[i], trace[i + 2] if i + 2 < len(trace) else {}
        same = all(each.get(key) == again.get(key) for key in ("addr", "size", "frames"))
        if each["action"] == "free_requested" and again.get("action") == "alloc" and same:
            now[each["addr"]], i = again["category"], i + 3
            continue
        engine = on_device and any("_engine_run_backward" in frame["name"] for frame in each["frames"])
        kept.append(
            {key: value for key, value in each.items() if key != "category"} | ({"frames": []} if engine else {})
        )
        if each["action"] == "alloc":
            now[each["addr"]], level = each["category"], level + each["size"]
        elif each["action"] == "free_requested" and each["addr"] in now:
            level -= each["size"]
            del now[each["addr"]]
        if level > most:
            most, peak, at = level, dict(now), len(kept) - 1
        i += 1
    told["device_traces"][device] = kept
    held = one(assemble(read(pickle.dumps(told))))
    rows = held.allocated(at)
    rows = rows[held.block("begin")[rows] >= 0]
    codes, size, address = categories_of_blocks(held).of, held.block("size"), held.block("address")
    found = Counter[tuple[str, str]]()
    for row in rows.tolist():
        found[peak[int(address[row])], ORDER[codes[row]]] += int(size[row])
    assert sum(found.values()) == most
    return held, found


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize(
    "path",
    [
        RECORDED / "cnn.snapshot.pickle.gz",
        RECORDED / "transformer.snapshot.pickle.gz",
        pytest.param(
            DATA / "memsnap/profile_to_snapshot_cpu_real.pickle",
            marks=pytest.mark.skipif(not DATA.is_dir(), reason="the real traces of ../shared/data are not here"),
        ),
    ],
    ids=lambda path: path.name.partition(".")[0],
)
def test_beside_what_was_recorded(path: Path, on_device: bool) -> None:
    _, found = as_an_allocator_records(path, on_device)
    assert sum(size for (recorded, judged), size in found.items() if recorded == judged) >= 0.95 * sum(found.values())
