"""Diff against what msprof-analyze and the vendor's plugin wrote of the same profiles; each difference has a reason."""

from __future__ import annotations

import functools
import json
import re
import zipfile
from collections import defaultdict
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tb_plugin.analysis.base import Params, Part
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.diff.view import Diff
from tests.builders import whole_part
from tests.conftest import SHARED, loaded, needs_shared
from tests.depth import needs_time
from tests.formats.ascend.folders import ALEXNET, RECORDED, folder, table_of
from tests.formats.sources import DATA

TOOLS = DATA / "ascend" / "golden_tools"
NPUS, NPU_AND_GPU = TOOLS / "compare_npu_rank1_vs_rank0.xlsx", TOOLS / "compare_npu_alexnet_vs_gpu_resnet50.xlsx"
PLUGIN = DATA / "ascend" / "golden" / "alexnet_text_level1" / "diff_rank_0_vs_rank_1.json"
GPU = f"{SHARED.name}/data/kineto/resnet50_num_workers_4/worker0.1623213129365.pt.trace.json.gz"
pytestmark = [
    needs_shared,
    needs_time,
    pytest.mark.skipif(not NPUS.is_file(), reason="the vendor's tables are in ../shared"),
]
RANGES = {
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "DistributedDataParallel.forward",
    "Optimizer.zero_grad#SGD.zero_grad", "Optimizer.step#SGD.step",
}  # fmt: skip
"""Ranges of the program, which are phases and no operators here."""
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
Cells = list[dict[str, str]]


@functools.cache
def sheets(path: Any) -> dict[str, Cells]:
    """The rows of each sheet below its two heads: texts by the letters of the column."""
    with zipfile.ZipFile(path) as file:
        texts = [
            "".join(each.text or "" for each in item.iter(f"{_SHEET}t"))
            for item in ElementTree.fromstring(file.read("xl/sharedStrings.xml")).iter(f"{_SHEET}si")
        ]
        names = [
            each.get("name", "") for each in ElementTree.fromstring(file.read("xl/workbook.xml")).iter(f"{_SHEET}sheet")
        ]
        found = {}
        for number, name in enumerate(names, 1):
            rows: Cells = []
            for row in ElementTree.fromstring(file.read(f"xl/worksheets/sheet{number}.xml")).iter(f"{_SHEET}row"):
                cells = {}
                for cell in row.iter(f"{_SHEET}c"):
                    value = cell.find(f"{_SHEET}v")
                    if value is not None and value.text is not None:
                        text = texts[int(value.text)] if cell.get("t") == "s" else value.text
                        cells[re.sub(r"\d", "", cell.get("r", ""))] = text
                rows.append(cells)
            found[name] = rows[2:]
    return found


def numbers(row: dict[str, str], columns: str) -> list[float]:
    return [float(row.get(column, 0)) for column in columns]


@functools.cache
def trace(side: str) -> TraceTable:
    if side == "gpu":
        return loaded(GPU)
    return table_of(
        folder(ALEXNET if side == "rank0" else RECORDED / "alexnet_text_level1" / ALEXNET.name.replace("_0_", "_1_"))
    )


@functools.cache
def side(name: str) -> Part:
    return whole_part(trace(name), "diff")


@functools.cache
def rows(base: str, exp: str, table: str) -> list[dict[str, Any]]:
    """In sums: their tables hold those of all steps."""
    extra = (("per", "total"), ("measure", "device_total_ns"))
    found: Any = Diff().answer([side(base), side(exp)], Params(table=table, limit=None, extra=extra))
    return list(found.rows)


def test_operators() -> None:
    """Device time of the operators that the tool counts as often as we do."""
    found = {row["name"]: row for row in rows("gpu", "rank0", "operators")}
    equal = 0
    for row in sheets(NPU_AND_GPU)["OperatorCompareStatistic"]:
        for name, columns in (("base", "CD"), ("exp", "EF")):
            time, calls = numbers(row, columns)
            ours = found.get(row["B"])
            # It counts outermost calls alone, and those outside of steps too.
            if ours is None or not calls or ours[f"{name}_calls"] != calls:
                continue
            # Copies and sets are no kernels to it on the GPU, while it counts those of the NPU.
            apart = {"CudnnConvolutionBackward": 0.581, "NllLossBackward": 0.006}.get(row["B"], 0)
            assert ours[f"{name}_ns"] / 1e6 - apart == pytest.approx(time, abs=1e-5), (name, row["B"])
            equal += 1
    assert equal > 40


BESIDES_IN_STEPS, NESTED, WHOSE_CHILD = range(3)
"""Why a row of theirs differs: they count calls outside of steps; a call in one of its name counts twice in their total;
whose child a call is that begins in the same microsecond, the unit of the GPU's recording."""


@pytest.mark.parametrize(("base", "exp", "path"), [("rank0", "rank1", NPUS), ("gpu", "rank0", NPU_AND_GPU)])
def test_calls_of_the_host(base: str, exp: str, path: Any) -> None:
    """To the two decimals of milliseconds that the tool writes."""
    equal, unlike = 0, defaultdict(set)
    for row in sheets(path)["ApiCompare"]:
        for which, columns in ((base, "FCD"), (exp, "JGH")):
            calls, total, own = numbers(row, columns)
            ours = host_times(which).get(row["B"])
            if ours is None:
                # Ranges may be phases here, and the GPU's runtime calls have a table of their own.
                assert not calls or row["B"] in RANGES or row["B"].startswith("cuda"), row["B"]
            elif ours == pytest.approx((calls, total, own), abs=0.006):
                equal += 1
            elif calls > ours[0]:
                unlike[BESIDES_IN_STEPS, which].add(row["B"])
            elif total > ours[1] + 0.006:
                unlike[NESTED, which].add(row["B"])
            else:
                assert ours[:2] == pytest.approx((calls, total), abs=0.006) and abs(own - ours[2]) < 0.2
                unlike[WHOSE_CHILD, which].add(row["B"])
    assert equal > 180
    expected: dict[tuple[int, str], set[str]] = {
        (BESIDES_IN_STEPS, "gpu"): {"aten::zeros", "aten::empty", "aten::zero_"},
        (NESTED, "gpu"): {"aten::div"},
        (WHOSE_CHILD, "gpu"): {
            "aten::copy_", "aten::cudnn_convolution_backward_input", "aten::cudnn_convolution_backward_weight",
        },
    }  # fmt: skip
    for npu in ("rank0", "rank1"):
        expected |= {(NESTED, npu): {"HcclAllreduce"}}
    assert unlike == {key: names for key, names in expected.items() if key[1] in (base, exp)}


@functools.cache
def host_times(which: str) -> dict[str, tuple[int, float, float]]:
    """Calls, total and self of operators in milliseconds. Runtime calls are calls to the tool on the GPU, not on NPUs."""
    found = {}
    for row in side(which).frames["operators"].data.to_pylist():
        own = row["host_self_ns"] + (0 if which == "gpu" else row["runtime_self_ns"])
        found[row["name"]] = (row["calls"], row["host_total_ns"] / 1e6, own / 1e6)
    return found


def test_modules() -> None:
    """Device time of the forward and of the backward pass, to the rounding of kernels."""
    found: Any = Diff().answer(
        [side("rank0"), side("rank1")], Params(table="modules", limit=None, extra=(("measure", "all"),))
    )
    ours = {row["module"]: row for row in found.rows}
    compared, biases = 0, [0.0, 0.0]
    for row in sheets(NPUS)["ModuleCompareStatistic"]:
        name, backward = row["D"].rpartition("/")[2].strip(), "BACKWARD" in row["D"]
        # It has no time of the backward pass for modules that hold others, and ranges among the modules.
        if row.get("E") != "[ TOTAL ]" or name in RANGES or (backward and name == "AlexNet_0"):
            continue
        key = "backward_device_total_ns" if backward else "device_total_ns"
        for which, (at, column) in enumerate((("base", "I"), ("exp", "M"))):
            apart = ours[name][f"{at}_{key}"] / 1e6 - float(row[column])
            if backward and name.startswith("Linear"):
                biases[which] += apart
            else:
                assert apart == pytest.approx(0, abs=1e-5), (name, row["D"])
        compared += 1
    assert compared == 2 * 26 - 4
    # The sum for the gradient of a bias runs beside the function of the backward pass, and is time of the module here.
    for which, name in enumerate(("rank0", "rank1")):
        device = {row["name"]: row["device_total_ns"] / 1e6 for row in side(name).frames["operators"].data.to_pylist()}
        engine = "autograd::engine::evaluate_function: AddmmBackward0"
        assert biases[which] == pytest.approx(device[engine] - device["AddmmBackward0"], abs=1e-5)


@pytest.mark.parametrize(("which", "columns"), [("rank0", "HDF"), ("rank1", "MIK")])
def test_kernels_by_type_and_shapes(which: str, columns: str) -> None:
    table = trace(which)
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    type_of, shapes_of = (values(table, key) for key in ("Type", "Input Shapes"))
    for row in np.flatnonzero(table.kind == EventKind.KERNEL).tolist():
        entry, dur = found[type_of[row], shapes_of[row]], int(table.dur_ns[row])
        entry[:] = [entry[0] + 1, entry[1] + dur, max(entry[2], dur)]
    said = {
        # No shapes are N/A to the tool.
        (row["B"], row.get("C", "").strip('"').replace("N/A", "")): numbers(row, columns)
        for row in sheets(NPUS)["KernelCompare"]
    }
    assert found.keys() == said.keys()
    for key, (calls, total, longest) in said.items():
        assert found[key][0] == calls
        assert [time / 1000 for time in found[key][1:]] == pytest.approx([total, longest], abs=0.01), key


def values(table: TraceTable, key: str) -> dict[int, str]:
    column = next(each for each in table.others if each.key == key)
    found = defaultdict(str)
    for row, value in zip(column.row.tolist(), column.value.tolist(), strict=True):
        found[row] = table.strings[value].strip('"')
    return found


def test_host_times_are_those_of_the_vendor_s_plugin() -> None:
    """To the quarter of a microsecond; that it found no device time on NPUs is its bug, and all of it stands here."""
    said = json.loads(PLUGIN.read_bytes())
    view: Any = Diff().answer([side("rank0"), side("rank1")], Params(limit=None, extra=(("measure", "host_total_ns"),)))
    tree = {row["name"]: row for row in view.payloads["call_tree"].rows if row["node_kind"] in ("module", "annotation")}
    compared = 0
    for child in said["children"]:
        name = child["left"]["name"].removeprefix("nn.Module: ")
        if name == "CompositeNodes":
            continue  # what it puts together of neighbours
        for ours, theirs in (("base_ns", "left"), ("exp_ns", "right")):
            assert tree[name][ours] / 1000 == pytest.approx(child[theirs]["duration"], abs=0.5), name
            assert child[theirs]["device_duration"] == 0
        compared += 1
    assert compared == 4
    operators = {row["name"]: row for row in rows("rank0", "rank1", "operators")}
    everything = side("rank0").frames["operators"].data.to_pylist()
    host = {row["name"]: row for row in everything}
    equal = 0
    for row in said["left"]["aggs"]:
        known = host.get(row["name"])
        if known is not None and known["calls"] == row["calls"]:  # it leaves calls of the backward pass's thread out
            assert known["host_total_ns"] / 1000 == pytest.approx(row["host_duration"], abs=0.25 * row["calls"])
            equal += 1
    assert equal > 40
    assert operators["aten::conv2d"]["base_ns"] == 1_116_440
