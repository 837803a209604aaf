"""Findings on snapshots: what is planted is found, first and exact; without anything planted nothing is."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of
from tb_plugin.analysis.snapshot.steps import steps_of
from tb_plugin.findings import Finding, findings
from tb_plugin.model.snapshot.table import Snapshot
from tests.depth import sampled
from tests.planted import MIB, Program, frames, model_of, synthetic
from tests.snapshots import event, segment, snapshot

SEEDS = sampled(range(200), range(0, 200, 20))
FEW = sampled(range(40), range(3))


def found_in(model: Snapshot) -> list[Finding]:
    """What the view says, in its order."""
    view = next(analysis for analysis in registry.analyses() if analysis.id == "allocations")
    return findings(view.part(model, Params()).payloads.values())


def values(finding: Finding) -> dict[str, Any]:
    return {figure.key: figure.value for figure in finding.figures}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_reported_where_nothing_is_planted(seed: int) -> None:
    steps = random.Random(seed).randint(5, 12)
    for annotated in (True, False):
        model = Program(seed, steps, annotated).run().snapshot
        found = steps_of(devices_of(model)[0])
        assert (len(found), found.source) == ((steps, "annotations") if annotated else (0, ""))
        assert [each.text for each in found_in(model)] == []


@pytest.mark.parametrize("seed", FEW)
def test_a_leak_is_found_first_and_sized_exactly(seed: int) -> None:
    program = Program(seed, 9)
    size = random.Random(seed).choice([512, 3000, 40_000, MIB])
    left: list[int] = []
    program.run(lambda: left.append(program.size_of(program.allocate(size, 77))))
    (leak,) = found_in(program.snapshot)
    assert leak.rule == "snapshot_leak" and "program.py(77): work retains " in leak.text and leak.todo
    counted = left[1:]
    assert values(leak)["left_bytes"] == sum(counted) and values(leak)["left_blocks"] == len(counted)
    assert values(leak)["step_growth_bytes"] == sum(counted) / len(counted)
    assert values(leak)["step_growth_blocks"] == 1.0
    assert leak.measure == "leak_confidence" and values(leak)["leak_confidence"] > 0.8
    assert leak.evidence and leak.evidence.view == "growth" and leak.evidence.parameters["stack"]


def test_one_block_a_step_among_a_thousand_others() -> None:
    program = Program(5, 6, others=1000)
    program.sizes = [512 * (1 + i % 5) for i in range(1000)]
    program.run(lambda: program.allocate(1000, 77))
    (leak,) = found_in(program.snapshot)
    assert "program.py(77): work" in leak.text
    assert (values(leak)["step_growth_bytes"], values(leak)["counted_steps"]) == (1024.0, 5)
    assert values(leak)["leak_confidence"] == 1.0 and leak.severity == "low"


def test_leaks_are_ranked_by_bytes_a_step() -> None:
    program = Program(3, 8)
    program.run(lambda: [program.allocate(size, line) for size, line in ((2048, 71), (300_000, 72), (9000, 73))])
    lines = [values(each)["allocation_line"] for each in found_in(program.snapshot)]
    assert [line.partition("(")[2][:2] for line in lines] == ["72", "73", "71"]


@pytest.mark.parametrize("seed", FEW)
def test_fragmentation_is_found_with_its_cause(seed: int) -> None:
    program = Program(seed, 8)
    sizes = random.Random(seed)
    allocator = program.allocator
    most: dict[str, int] = {"reserved": 0}

    def look() -> None:
        state = [(segment.size, sum(b.size for b in segment.blocks if b.state != "inactive"),
                  max((b.size for b in segment.blocks if b.state == "inactive"), default=0))
                 for segment in allocator.segments]  # fmt: skip
        reserved, active = sum(size for size, _, _ in state), sum(used for _, used, _ in state)
        if (reserved, active) > (most["reserved"], most.get("active", 0)):
            most.update(reserved=reserved, active=active, gap=max(gap for _, _, gap in state),
                        pinned=sum(size - used for size, used, _ in state if used))  # fmt: skip

    def vary(number: int) -> None:
        """Larger each time: nothing fits where the ones before were."""
        blocks = []
        for line in range(200, 206):
            blocks.append(program.allocate((30 + 12 * number + sizes.randint(0, 8)) * MIB, line))
            look()
        for block in blocks:
            allocator.free(block)

    program.start()
    for number in range(program.steps):
        program.step(number, partial(vary, number))
    found, *others = found_in(program.snapshot)
    assert [each.rule for each in others] == ["snapshot_rising_peaks"], "as planted, too"
    assert found.rule == "snapshot_fragmentation" and "Block sizes change from step to step" in found.text
    assert "expandable_segments" in found.todo and "constant shapes" in found.todo
    said = values(found)
    assert (said["reserved_then_bytes"], said["unused_bytes"]) == (most["reserved"], most["reserved"] - most["active"])
    assert (said["pinned_bytes"], said["largest_gap_bytes"]) == (most["pinned"], most["gap"])
    assert said["unused_ratio"] == said["unused_bytes"] / said["reserved_then_bytes"]


def test_small_blocks_that_pin_segments() -> None:
    """Of 64 segments of 20 MiB only 2 MiB each stay; what comes next needs more than each has left."""
    allocator = synthetic.Allocator(64 << 30)
    pins = []
    for _ in range(64):
        pins.append(allocator.allocate(2 * MIB, frames(1)))
        pins.append(allocator.allocate(9 * MIB, frames(2)))
        pins.append(allocator.allocate(9 * MIB, frames(3)))
    for block in (*pins[1::3], *pins[2::3]):
        allocator.free(block)
    for _ in range(20):
        allocator.allocate(30 * MIB, frames(4))
    by_rule = {each.rule: each for each in found_in(model_of(allocator))}
    assert by_rule.keys() == {"snapshot_fragmentation"}, "rounds that nobody annotated are no steps"
    found = by_rule["snapshot_fragmentation"]
    said = values(found)
    assert "mostly blocks from /home/user/train/program.py(1): work" in found.text
    assert (said["pinned_segments"], said["pinned_bytes"]) == (64, 64 * 18 * MIB)
    assert said["largest_gap_bytes"] == 18 * MIB


@pytest.mark.parametrize(("asked", "pieces"), [(15, True), (300, False)])
def test_memory_runs_out(asked: int, pieces: bool) -> None:
    """Twelve segments of 20 MiB full, then every other block of 10 MiB free."""
    allocator = synthetic.Allocator(240 * MIB)
    blocks = [allocator.allocate(9 * MIB, frames(5 + i % 3)) for i in range(24)]
    for block in blocks[::2]:
        allocator.free(block)
    with pytest.raises(synthetic.OutOfMemory):
        allocator.allocate(asked * MIB, frames(9))
    (found, *_) = found_in(model_of(allocator))
    said = values(found)
    gap = max(b.size for s in allocator.segments for b in s.blocks if b.state == "inactive")
    active = sum(b.size for s in allocator.segments for b in s.blocks if b.state != "inactive")
    assert (found.rule, found.severity) == ("snapshot_out_of_memory", "high")
    assert said["asked_bytes"] == asked * MIB and said["pool_gap_bytes"] == gap
    assert said["cache_free_bytes"] == allocator.reserved - active
    assert said["device_free_bytes"] == allocator.capacity - allocator.reserved
    assert said["allocated_bytes"] == active
    assert said["pool_free_bytes"] == said["cache_free_bytes"] and "the whole cache" not in found.text, (
        "all of it is large"
    )
    assert ("The request would fit if 1 block (9.00 MiB) is released" in found.text) is pieces
    assert ("this request is larger" in found.text) is not pieces and ("requesting line" in found.todo) is not pieces
    assert (
        f"{said['asking_line']} requested" in found.text
        and said["asking_line"] == "/home/user/train/program.py(9): work"
    )
    assert ("it was fragmented" in found.text) is pieces and ("expandable_segments" in found.todo) is pieces
    held = {line: sum(b.size for s in allocator.segments for b in s.blocks if b.frames == frames(line))
            for line in (5, 6, 7)}  # fmt: skip
    assert said["line_held_bytes"] == max(held.values())
    assert found.evidence and found.evidence.parameters["at"] == str(said["event_number"])


@pytest.mark.parametrize(("gap", "cause"), [(512, "without fragmentation"), (4096, "largest gap was large enough")])
def test_why_memory_ran_out(gap: int, cause: str) -> None:
    """2048 bytes are asked for; 4096 are in use, and of 4096 + gap none are free but the gap."""
    state = [segment(0, 4096 + gap, [(4096, "active_allocated")], segment_type="small")]
    (found,) = found_in(snapshot([event("oom", 0, 2048, device_free=0)], state))
    assert cause in found.text and "2.00 KiB were requested" in found.text
    assert ("batch" in found.todo) is (gap == 512)


@pytest.mark.parametrize(("pool", "stays", "said"), [
    ((0, 1), True, "126 MiB are in one pool (private 0.1)"),
    ((0, 0), True, "Blocks that are never released pin the segments, mostly blocks from a.py(1): f"),
    ((0, 0), False, "The segments with unused memory contain short-lived blocks"),
])  # fmt: skip
def test_who_keeps_unused_memory(pool: tuple[int, int], stays: bool, said: str) -> None:
    """Two blocks of 1 MiB in a segment of 128: the event of the finding is that of the tile, the second block's."""
    stack = [{"filename": "a.py", "line": 1, "name": "f"}]
    history = [event("segment_alloc", 0, 128 * MIB, segment_pool_id=pool)]
    history += [event("alloc", at * MIB, MIB, frames=stack) for at in range(2)]
    if not stays:
        history += [event("free_completed", at * MIB, MIB, frames=stack) for at in range(2)]
    blocks = [(MIB, "active_allocated")] * 2 if stays else []
    state = [segment(0, 128 * MIB, blocks, segment_pool_id=pool)]
    model = snapshot(history, state)
    (found,) = [each for each in found_in(model) if each.rule == "snapshot_fragmentation"]
    assert said in found.text and "of the peak reserved memory is unused at event 2:" in found.text
    assert found.evidence and found.evidence.parameters["at"] == "2" and values(found)["event_number"] == 2
    assert levels_of(devices_of(model)[0]).most_reserved() == 2


def test_segments_that_come_and_go() -> None:
    program = Program(4, 8)

    def swing() -> None:
        program.allocator.free(program.allocate(40 * MIB, 88))
        program.allocator.empty_cache()

    (found, *others) = found_in(program.run(swing).snapshot)
    assert {each.rule for each in others} <= {"snapshot_single_peak"}
    said = values(found)
    assert found.rule == "snapshot_reserved_swings" and "empty_cache" in found.todo
    assert (said["swing_steps"], said["steady_steps"], said["segments_given"]) == (7, 7, 7)
    assert said["swing_bytes"] == 40 * MIB


@pytest.mark.parametrize("seed", FEW)
def test_a_peak_of_one_block(seed: int) -> None:
    program = Program(seed, 6)
    size = sum(program.parameters) * 2
    *others, found = found_in(program.run(lambda: program.allocator.free(program.allocate(size, 89))).snapshot)
    assert {each.rule for each in others} <= {"snapshot_fragmentation"}, (
        "its segment is split where the first step needs one"
    )
    said = values(found)
    level = peak = without = 0
    for each in program.allocator.trace:
        change = {"alloc": 1, "free_requested": -1}.get(each["action"], 0) * each["size"]
        level += change
        peak = max(peak, level)
        without = max(without, level - (each["size"] if each["frames"] == frames(89) and change > 0 else 0))
    assert found.rule == "snapshot_single_peak" and "program.py(89): work" in found.text
    assert (said["most_allocated_bytes"], said["peak_less_bytes"]) == (peak, without)
    assert said["saved_bytes"] == peak - without and said["life_events"] == 1


@pytest.mark.parametrize("seed", FEW)
def test_peaks_that_rise_while_nothing_stays(seed: int) -> None:
    """Longer sequences: a block that is 8 MiB larger in every step."""
    program = Program(seed, 10)
    sizes: list[int] = []

    def longer() -> None:
        # Larger than all else that comes and goes: it is there at the peak of its step.
        address = program.allocate((40 + 8 * len(sizes)) * MIB, 88)
        sizes.append(program.size_of(address))
        program.allocator.free(address)

    program.run(longer)
    (found,) = (each for each in found_in(program.snapshot) if each.rule == "snapshot_rising_peaks")
    told = values(found)
    assert told["peak_growth_bytes"] == pytest.approx(8 * MIB, rel=0.1) and told["rising_ratio"] == 1.0
    assert (told["peak_steps"], told["risen_bytes"]) == (8, sizes[9] - sizes[1])
    assert "program.py(88): work" in found.text and found.evidence and found.evidence.view == "growth"
    growth = next(analysis for analysis in registry.analyses() if analysis.id == "growth").part(
        program.snapshot, Params()
    )
    (answer,) = findings([growth.payloads["answer"]]) or (None,)
    assert answer is None or "peak memory rises" in answer.text


def test_findings_on_any_device_are_those_of_the_profile() -> None:
    asked = [event("alloc", 0, 512), event("oom", 0, 2048, device_free=1024)]
    model = snapshot([], device_traces=[[event("alloc", 512 * i, 512) for i in range(3)], asked])
    (found,) = found_in(model)
    assert found.text.startswith("cuda:1: Memory ran out at event 1: 2.00 KiB were requested")
    view = next(analysis for analysis in registry.analyses() if analysis.id == "allocations")
    for device, count in (("cuda:0", 0), ("cuda:1", 1)):
        said = findings(view.part(model, Params(extra=(("device", device),))).payloads.values())
        assert [each.text for each in said] == ["Memory" + found.text.partition("Memory")[2]] * count


def test_the_addresses_of_a_converted_profile_are_no_reserved_memory() -> None:
    blocks = [event("alloc", 4096 * i, 100 + i) for i in range(4)]
    assert found_in(snapshot(blocks, [segment(0, 400 * MIB)])) == []
    rounded = [{**each, "size": 512} for each in blocks]
    assert [each.rule for each in found_in(snapshot(rounded, [segment(0, 400 * MIB)]))] == ["snapshot_fragmentation"]


def test_a_history_without_anything() -> None:
    assert found_in(snapshot([])) == []
    assert found_in(snapshot([event("alloc", 0, 512)])) == []
