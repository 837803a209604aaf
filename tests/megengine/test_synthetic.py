"""The generator of MegEngine timelines. ``test_truth.py`` compares its truth with what the plugin finds."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.megengine.synthetic import generator

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
RECORDED = Path("/work/shared/data/megengine/all/23766.chrome_timeline.json")
Json = dict[str, Any]


def test_planted_faults_cost_what_the_mended_program_saves() -> None:
    for fault in generator.FAULTS:
        config = generator.Config(steps=1, ranks=2, blocks=1, faults=(fault,))
        document = generator.truth_document(config, "a run")
        planted = document["planted"][fault]
        assert planted["cost_ns_per_step"] == document["mean_step_ns"] - planted["mended_step_ns"] > 0
        worker = document["workers"]["4100"]
        assert len(worker["redundant_reshapes"]) == (3 if fault == "reshapes" else 0)
        lanes = {a["lane"] for a in worker["all_reduces"]}
        assert lanes == {"gpux:0" if fault == "serial_all_reduce" else "gpux:1"}


def test_processes_meet_in_their_sums() -> None:
    first, second = (generator.truth_of(p) for p in generator.play(generator.Config(steps=1, ranks=2, blocks=1)))
    ends = [[a["end_ns"] + worker["local_time_ns"] for a in worker["all_reduces"]] for worker in (first, second)]
    assert ends[0] == ends[1] and len(ends[0]) == 5
    assert first["local_time_ns"] != second["local_time_ns"]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recordings of MegEngine are in /work/shared")
def test_the_host_rows_look_like_recorded_ones() -> None:
    def shapes(text: str) -> set[tuple[Any, ...]]:
        """Of every event: its phase, category and keys in their order; lanes of CUPTI have no recorded counterpart."""
        events = [e for e in json.loads(text)["traceEvents"] if e.get("cat") not in ("KernelLink", "CUPTILink")]
        devices = {e["tid"] for e in events if e["ph"] == "M"}
        return {(e["ph"], e.get("cat"), tuple(e)) for e in events if e["tid"] in devices}

    text = RECORDED.read_text()
    invented = generator.text(generator.play(generator.Config(steps=2))[0])
    assert shapes(invented) <= shapes(text)
    assert invented.startswith('{"traceEvents":[{"args":{"value":') and "\n" not in invented
    assert list(json.loads(invented)) == list(json.loads(text)) == ["traceEvents", "metadata"]


@pytest.mark.parametrize(
    "arguments",
    [
        *({"steps": 0}, {"ranks": 0}, {"blocks": 0}),
        *({"faults": ("none",)}, {"faults": ("wait", "wait")}, {"faults": ("serial_all_reduce",)}),
    ],
)
def test_what_cannot_be_played_is_refused(arguments: Json) -> None:
    with pytest.raises(ValueError, match=r"at least 1|each once|takes 2 ranks"):
        generator.Config(**arguments)


def test_the_command_line_writes_what_the_functions_make(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    generator.main(
        [str(tmp_path / "run"), "--steps", "1", "--blocks", "1", "--fault", "wait", "--plain", "--truth", str(truth)]
    )
    config = generator.Config(steps=1, blocks=1, faults=("wait",))
    assert (tmp_path / "run/4100.chrome_timeline.json").read_text() == generator.text(generator.play(config)[0])
    assert json.loads(truth.read_text()) == json.loads(json.dumps(generator.truth_document(config, "run")))


def test_the_sample_is_what_the_generator_makes_today() -> None:
    kept = json.loads((SAMPLES / "truth" / "synthetic_megengine.json").read_text())
    config = generator.Config(**kept["config"])
    processes = generator.play(config)
    assert json.loads(json.dumps(generator.truth_document(config, "synthetic_megengine", processes))) == kept
    for process in processes:
        path = SAMPLES / "synthetic_megengine" / f"{process.pid}.chrome_timeline.json.gz"
        assert gzip.decompress(path.read_bytes()).decode() == generator.text(process)
        assert path.with_name(f"{process.pid}.memory_flow.svg").read_text() == generator.drawing(process)
