"""Which files are candidates, and what their names say."""

from __future__ import annotations

import pytest

from tb_plugin.readers.base import ListedFile
from tb_plugin.readers.kineto import KinetoReader


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("worker0.1623143089861.pt.trace.json", ("", "worker0", "1623143089861", True)),
        ("run/a/host_12.1623143089861000000.pt.trace.json.gz", ("run/a", "host_12", "1623143089861000000", True)),
        ("w.1.2.pt.trace.json", ("", "w.1", "2", True)),
        ("r/worker0.pt.trace.json", ("r", "worker0", None, True)),
        (".pt.trace.json", ("", "", None, True)),
        ("r/trace.json.gz", ("r", "trace", None, False)),
        ("r/config.json", ("r", "config", None, False)),
        ("out/traces/iteration_10/rank0_trace.json.gz", ("out/traces", "rank0", "10", True)),
        ("iteration_5/rank12_trace.json", ("", "rank12", "5", True)),
        ("traces/iteration_20/validation/rank3_trace.json", ("traces/validation", "rank3", "20", True)),
        ("iteration_5/a/b/rank1_trace.json", ("iteration_5/a/b", "rank1_trace", None, False)),
        ("rank0_trace.json.gz", ("", "rank0_trace", None, False)),
        ("w0.7.pt.trace.annotated.json.gz", ("", "w0", "7", True)),
        ("w0.7.pt.trace.json.gz.annotated.json.gz", ("", "w0", "7", True)),
        ("iteration_5/rank1_trace.annotated.json", ("", "rank1", "5", True)),
        ("r/other.annotated.json", ("r", "other.annotated", None, False)),
    ],
)
def test_names(path, expected):
    (candidate,) = KinetoReader().find([ListedFile(path, 1, "f")])
    assert (candidate.run, candidate.worker, candidate.span, candidate.certain) == expected
    assert candidate.names == (path,)


def test_compressed_and_plain_twins_are_both_kept():
    listing = [ListedFile(f"w.1.pt.trace.json{end}", 1, "f") for end in ("", ".gz")]
    assert len(KinetoReader().find(listing)) == 2


@pytest.mark.parametrize("path", ["a.txt", "w.1.pt.trace.json.tmp", "events.out.tfevents.1", "json", "a.json.zip"])
def test_other_files(path):
    assert KinetoReader().find([ListedFile(path, 1, "f")]) == []


@pytest.mark.parametrize("original", ["w0.7.pt.trace.json", "r/iteration_5/rank1_trace.json.gz", "r/trace.json.gz"])
def test_an_annotated_trace_stands_for_the_one_that_it_was_made_of(original: str) -> None:
    stem = original.removesuffix(".gz").removesuffix(".json")
    annotated = f"{stem}.annotated.json"
    found = {c.names[0]: c for c in KinetoReader().find([ListedFile(p, 1, "f") for p in (original, annotated)])}
    assert found[annotated].also == (original,) and found[annotated].strength > found[original].strength
    assert found[annotated].span == found[original].span and found[annotated].run == found[original].run
