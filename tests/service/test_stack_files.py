"""Exported stacks: the two formats, what names may not do to them, and the numbers of the page in both."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.selection import select_rows
from tb_plugin.analysis.stack_frames import FRAMES
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.service.answers.stack_export import SUFFIXES, write_stacks
from tb_plugin.views.stacks.options import WEIGHTS, Choice
from tb_plugin.views.stacks.places import merged_stacks
from tests.builders import kernel, trace
from tests.conftest import SAMPLE_FILES, sample


def exported(
    table: TraceTable, folder: Path, form: str, steps: tuple[str, ...] | None = None, threads: str = "", **extra: str
) -> str:
    """``threads``: several, with blanks between."""
    target = folder / "stacks.gz"
    chosen = (*extra.items(), *(("thread", thread) for thread in threads.split()))
    write_stacks(table, Params(steps=steps, extra=chosen), form, str(target))
    return gzip.decompress(target.read_bytes()).decode()


def speedscope(table: TraceTable, folder: Path, **extra: str) -> Any:
    return json.loads(exported(table, folder, "speedscope", **extra))


def folded(text: str) -> list[tuple[list[str], int]]:
    """As flamegraph.pl reads it: the number stands behind the last blank."""
    lines = [line.rpartition(" ") for line in text.splitlines()]
    return [(stack.split(";"), int(number)) for stack, _, number in lines]


def check_schema(document: Any) -> None:
    """What file-format-schema.json of speedscope requires."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames, profiles = document["shared"]["frames"], document["profiles"]
    assert all(isinstance(frame["name"], str) for frame in frames)
    assert profiles and 0 <= document["activeProfileIndex"] < len(profiles)
    for profile in profiles:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "nanoseconds", 0)
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(sample and all(0 <= frame < len(frames) for frame in sample) for sample in profile["samples"])
        assert all(isinstance(weight, int) and weight > 0 for weight in profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])


def two_threads() -> TraceTable:
    builder = trace().python("main", 0, 50).op("aten::mm", 10, 20).launches(kernel("a", 3)).thread_name(1, "trainer")
    builder.op("aten::mm", 0, 70, tid=2).launches(kernel("b", 4))
    return builder.on_device(kernel("stray", 9, at=99)).table()


def test_folded(tmp_path: Path) -> None:
    assert exported(two_threads(), tmp_path, "folded") == "aten::mm 70000\nmain 30000\nmain;aten::mm 20000\n"
    found = exported(two_threads(), tmp_path, "folded", weight="device")
    assert found == "(no operator) 9000\naten::mm 4000\nmain;aten::mm 3000\n"


def test_speedscope_has_a_profile_for_each_thread(tmp_path: Path) -> None:
    document = speedscope(two_threads(), tmp_path)
    check_schema(document)
    names = [frame["name"] for frame in document["shared"]["frames"]]
    found = [
        (profile["name"], [[names[i] for i in stack] for stack in profile["samples"]], profile["weights"])
        for profile in document["profiles"]
    ]
    assert found == [
        ("Thread 2 1:2", [["aten::mm"]], [70_000]),
        ("Main thread 1:1", [["main"], ["main", "aten::mm"]], [30_000, 20_000]),
    ]
    document = speedscope(two_threads(), tmp_path, weight="device")
    check_schema(document)
    assert [(p["name"], p["weights"]) for p in document["profiles"]] == [
        ("(no operator)", [9_000]), ("Thread 2 1:2", [4_000]), ("Main thread 1:1", [3_000]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a;b", "a\nb", "a\r\n9 b", "a b 7", "", " ", "</script>", "é\u2028\x00π", '"\\'])
def test_no_name_breaks_a_file(name: str, tmp_path: Path) -> None:
    table = trace().python(name, 0, 30).op("aten::mm", 10, 5).table()
    found = folded(exported(table, tmp_path, "folded"))
    assert [(len(stack), ns) for stack, ns in found] == [(1, 25_000), (2, 5_000)]
    assert all(stack[0] for stack, _ in found)
    document = speedscope(table, tmp_path)
    check_schema(document)
    assert [frame["name"] for frame in document["shared"]["frames"]] == [name, "aten::mm"], "here it stays as it was"


@pytest.mark.parametrize("name", [n for n in SAMPLE_FILES if n.startswith(("transformer", "synthetic_gpu", "ddp"))])
@pytest.mark.parametrize("of", [*FRAMES])
def test_both_files_have_the_sums_of_the_page(name: str, of: str, tmp_path: Path) -> None:
    table = sample(name)
    for weight in WEIGHTS:
        places = merged_stacks(table, select_rows(table, None), Choice(of, weight))
        total = int((places.host_ns if weight == "host" else places.device_ns).sum())
        if not total:
            continue
        assert sum(ns for _, ns in folded(exported(table, tmp_path, "folded", of=of, weight=weight))) == total
        document = speedscope(table, tmp_path, of=of, weight=weight)
        check_schema(document)
        assert sum(profile["endValue"] for profile in document["profiles"]) == total


def test_chosen_threads_and_chosen_steps(tmp_path: Path) -> None:
    assert exported(two_threads(), tmp_path, "folded", thread="trainer") == "main 30000\nmain;aten::mm 20000\n"
    assert [p["name"] for p in speedscope(two_threads(), tmp_path, thread="2")["profiles"]] == ["Thread 2 1:2"]
    assert exported(two_threads(), tmp_path, "folded", threads="trainer 1:2") == exported(
        two_threads(), tmp_path, "folded"
    )
    assert len(speedscope(two_threads(), tmp_path, threads="trainer 2")["profiles"]) == 2
    table = trace().step(1, 0, 50).op("a", 10, 5).step(2, 60, 40).op("b", 70, 9).table()
    assert exported(table, tmp_path, "folded", ("2",)) == "b 9000\n"


def test_deep_recursion(tmp_path: Path) -> None:
    builder = trace()
    for depth in range(1500):
        builder.python("f", depth, 4000 - 2 * depth)
    found = folded(exported(builder.table(), tmp_path, "folded"))
    assert [len(stack) for stack, _ in found] == list(range(1, 1501))


@pytest.mark.parametrize("form", [*SUFFIXES])
def test_nothing_to_write_is_said(form: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No stack has device time"):
        exported(trace().op("a", 0, 5).table(), tmp_path, form, weight="device")


def test_what_is_asked_wrongly_is_said(tmp_path: Path) -> None:
    for form, extra in (("svg", {}), ("folded", {"of": "x"}), ("folded", {"weight": "x"}), ("folded", {"thread": "x"})):
        with pytest.raises(BadRequest):
            exported(two_threads(), tmp_path, form, **extra)
