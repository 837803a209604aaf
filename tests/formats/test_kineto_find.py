"""Which files are candidates, and what their names say."""

from __future__ import annotations

import pytest

from tb_plugin.formats.base import ListedFile
from tb_plugin.formats.kineto.reader import KinetoReader
from tests.builders import read, trace


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


@pytest.mark.parametrize(
    ("name", "worker", "span", "stage"),
    [
        # tensorboard_trace_handler, and so Hugging Face's Trainer in its documentation
        ("host_4711.1767189312000000000.pt.trace.json.gz", "host_4711", "1767189312000000000", ""),
        # SGLang
        ("1759255878.904894-TP-1.trace.json.gz", "TP-1", None, ""),
        ("1759255878.904894-TP-1-DP-0-PP-2-EP-1-DECODE.trace.json.gz", "TP-1-DP-0-PP-2-EP-1", None, "DECODE"),
        ("warm-up-1759255878.9-TP-0-EXTEND.trace.json", "TP-0", None, "EXTEND"),
        ("1759255878.9-TP-0-EXTEND.trace.annotated.json", "TP-0", None, "EXTEND"),
        # vLLM: the rank of one engine, of which there may be several
        ("4f2c1-rank-3.1767189312000000000.pt.trace.json.gz", "4f2c1-rank-3", "1767189312000000000", ""),
        ("dp1_pp0_tp1_dcp0_ep3_rank3.17.pt.trace.json.gz", "dp1_pp0_tp1_dcp0_ep3_rank3", "17", ""),
        # Lightning
        ("fit-perf_logs-0-[Strategy]DDPStrategy.training_step.17.pt.trace.json", "rank0", "17", "fit"),
        ("fit-2-[Strategy]SingleDeviceStrategy.training_step.17.pt.trace.json", "rank2", "17", "fit"),
        ("validate-a-1-7-_Strategy_DDPStrategy_validation_step.18.pt.trace.json", "rank7", "18", "validate"),
        ("test-run-1-first.17.pt.trace.json", "test-run-1-first", "17", ""),
        # Accelerate: the number of the process, which may be anything in a file of this name
        ("profile_2.json", "profile_2", None, ""),
        # verl
        ("prof_start_3_end_4_rank_12.json", "rank12", "3", ""),
        ("update_actor_prof_rank-1_4711_20260131120000123.json.gz", "rank1", "20260131120000123", "update_actor"),
        ("prof_rank-1_4711_20260131120000123_cycle2.json.gz", "rank1", "20260131120000123", ""),
        # DLRM
        ("worker3_step_12.1767189312000.pt.trace.json", "worker3", "1767189312000", ""),
        ("worker3_step_12.pt.trace.json", "worker3", "12", ""),
        # torchtitan
        ("iteration_10/rank3_trace.json", "rank3", "10", ""),
        # Composer
        ("rank2.4.pt.trace.json", "rank2", "4", ""),
        ("ep0-ba5-rank2.json", "rank2", "5", ""),
        # Megatron
        ("rank-3.json.gz", "rank3", None, ""),
        # dynolog
        ("libkineto_trace_3890.json", "libkineto_trace_3890", None, ""),
        ("trace_3890.json", "trace_3890", None, ""),
    ],
)
def test_names_of_tools(name, worker, span, stage):
    (found,) = KinetoReader().find([ListedFile(f"job/{name}", 1, "f")])
    assert (found.run, found.worker, found.span, found.stage) == ("job", worker, span, stage)
    assert (found.time_unix_ns is not None) == ("-TP-" in name)


@pytest.mark.parametrize(
    ("name", "root", "process"),
    [
        ("host_77.1767189312000.pt.trace.json", {}, "host_77"),
        ("host_77.1767189312000.pt.trace.json", {"host_name": "a"}, None),
        ("worker0_step_12.1767189312000.pt.trace.json", {}, None),
        ("host_77.json", {}, None),
    ],
)
def test_a_name_that_may_hold_the_host_is_stated(name, root, process):
    assert read(trace().op("aten::mm", 0, 5).meta(**root).bytes(), name=name).metadata.get("file_process") == process


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
