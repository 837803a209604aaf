"""Two snapshots: figures and stacks of both, recounted in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.findings import finding
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Table
from tb_plugin.views.snapshot_diff.view import SnapshotDiff
from tests.samples import OURS, made
from tests.snapshots import event, frames, snapshot

VIEW = SnapshotDiff()
MEMORY = [sample.name for sample in OURS if sample.model.type is Snapshot]


def table(base: Snapshot, exp: Snapshot, name: str) -> list[dict[str, Any]]:
    found = VIEW.answer([VIEW.part(side, Params()) for side in (base, exp)], Params(table=name, limit=None))
    assert isinstance(found, Table)
    return found.rows


def held(model: Snapshot, at_end: bool) -> tuple[Counter[str], Counter[str]]:
    (device,) = devices_of(model)
    at = device.count - 1 if at_end else levels_of(device).peak()
    texts = stack_words(model).text.to_pylist()
    bytes_, blocks = Counter[str](), Counter[str]()
    columns = (device.block(key).tolist() for key in ("stack", "size", "begin", "freed"))
    for stack, size, begin, freed in zip(*columns, strict=True):
        if begin <= at < freed:
            bytes_[texts[stack] or NO_STACK] += size
            blocks[texts[stack] or NO_STACK] += 1
    return bytes_, blocks


def test_samples_recounted() -> None:
    for base, exp in zip(map(made, MEMORY), map(made, (*MEMORY[1:], MEMORY[0])), strict=True):
        for name, at_end in (("peak_stacks", False), ("end_stacks", True)):
            rows = {row["allocation_stack"]: row for row in table(base, exp, name)}
            (one, few), (other, many) = held(base, at_end), held(exp, at_end)
            assert rows.keys() == one.keys() | other.keys()
            for text, row in rows.items():
                assert (row["base_held_bytes"], row["exp_held_bytes"]) == (one[text], other[text])
                assert (row["base_held_blocks"], row["exp_held_blocks"]) == (few[text], many[text])
                assert row["delta_held_bytes"] == other[text] - one[text]
        sums = {row["snapshot_figure"]: row for row in table(base, exp, "snapshot_figures")}
        levels = levels_of(devices_of(exp)[0])
        assert sums["Peak allocated"]["exp_held_bytes"] == levels.allocated.max()
        assert sums["Never used"]["exp_held_bytes"] == levels.reserved.max() - levels.active.max()


def test_what_appears_goes_and_grows() -> None:
    def of(*sizes: tuple[int, int]) -> Snapshot:
        return snapshot([event("alloc", i << 20, size, i, frames=frames(f"a.py:{line}:f")) for i, (line, size) in
                         enumerate(sizes)])  # fmt: skip

    base, exp = of((1, 512), (2, 512), (3, 1024)), of((2, 1024), (2, 512), (3, 512), (4, 4096))
    rows = table(base, exp, "peak_stacks")
    assert [(row["allocation_line"], row["memory_change"], row["delta_held_bytes"]) for row in rows] == [
        ("a.py(4): f", "appears", 4096), ("a.py(2): f", "grew", 1024), ("a.py(1): f", "gone", -512),
        ("a.py(3): f", "shrank", -512),
    ]  # fmt: skip
    view: Any = VIEW.answer([VIEW.part(side, Params()) for side in (base, exp)], Params())
    said = finding(view.payloads["answer"].notices[0]).text
    assert said.startswith("The peak changes by 4.00 KiB, from 2.00 KiB to 6.00 KiB. Largest change by stack: ")
    assert said.endswith("a.py(4): f (4.00 KiB).")
    same: Any = VIEW.answer([VIEW.part(base, Params())], Params())
    assert {row["memory_change"] for row in same.payloads["peak_stacks"].rows} == {"same"}
    empty = snapshot([])
    assert table(empty, empty, "end_stacks") == [] and table(empty, base, "end_stacks")[0]["memory_change"] == "appears"
