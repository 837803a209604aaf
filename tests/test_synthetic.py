"""The generator of GPU traces. ``oracle/test_synthetic_truth.py`` compares its truth with what the plugin finds."""

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests import synthetic

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
Json = dict[str, Any]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    def written(folder: str, seed: int) -> dict[str, bytes]:
        workers = synthetic.generate(synthetic.Config(steps=1, ranks=2, seed=seed))
        return {path.name: path.read_bytes() for path in synthetic.write(workers, tmp_path / folder)}

    assert written("a", 1) == written("b", 1) != written("c", 2)


def test_the_slow_rank_keeps_the_others_waiting_and_all_leave_a_collective_together() -> None:
    workers = synthetic.generate(synthetic.Config(steps=2, ranks=4, slow_rank=2))
    waits = {w.name: sum(c["wait_ns"] for c in w.truth["collectives"]) for w in workers}
    assert min(waits, key=lambda name: waits[name]) == "rank2"
    assert all(waits[name] > 20 * waits["rank2"] + 1_000_000 for name in waits if name != "rank2")
    for together in zip(*(w.truth["collectives"] for w in workers), strict=True):
        assert len({c["start_ns"] + c["dur_ns"] for c in together}) == 1
        assert min(c["wait_ns"] for c in together) == 0
        assert len({c["transfer_ns"] for c in together}) == 1


NONSENSE: list[tuple[Json, str]] = [
    ({"arch": "tpu"}, "arch is one of"),
    ({"steps": 0}, "at least 1"),
    ({"ranks": 0}, "at least 1"),
    ({"ranks": 4, "tensor_parallel": 3}, "divides"),
    ({"missing_share": 1.5}, "0 to 1"),
    ({"steps": 2, "late_steps": 2}, "less than steps"),
    ({"ranks": 2, "slow_rank": 2}, "exists"),
    ({"ranks": 2, "absent_ranks": (0, 1)}, "not absent"),
]


@pytest.mark.parametrize(("arguments", "why"), NONSENSE)
def test_nonsense_is_refused(arguments: Json, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        synthetic.Config(**arguments)


def test_groups_meet_by_themselves_and_are_named_in_the_file() -> None:
    """Neighbours share layers, ranks at the same place share gradients; each rank lists its own groups."""
    workers = synthetic.generate(
        synthetic.Config(steps=1, ranks=6, layers=1, tensor_parallel=2, slow_rank=3, absent_ranks=(5,))
    )
    assert [w.name for w in workers] == [f"rank{r}" for r in range(5)]
    listed = json.loads("".join(workers[3].text()))["distributedInfo"]["pg_config"]
    assert [(g["pg_name"], g["pg_desc"], g["ranks"]) for g in listed] == [
        ("0", "default_pg", [0, 1, 2, 3, 4, 5]),
        ("2", "tp", [2, 3]),
        ("5", "dp", [1, 3, 5]),
    ]
    meetings: dict[tuple[str, int], list[Json]] = defaultdict(list)
    for worker in workers:
        for one in worker.truth["collectives"]:
            meetings[one["group"], one["seq"]].append(one)
    assert {group: len({seq for g, seq in meetings if g == group}) for group, _ in meetings} == {
        "1": 2, "2": 2, "3": 2, "4": 3, "5": 3,
    }  # fmt: skip
    for (group, _), ones in meetings.items():
        assert len({c["start_ns"] + c["dur_ns"] for c in ones}) == len({c["transfer_ns"] for c in ones}) == 1
        assert group in ("3", "5") or min(c["wait_ns"] for c in ones) == 0  # the last of these may be the absent rank
    slow = [c for c in workers[3].truth["collectives"] if c["wait_ns"] > 0]
    assert len(slow) <= 1


def test_lost_kernels_are_evenly_spread_and_nothing_else_changes() -> None:
    whole, lossy = (
        synthetic.generate(synthetic.Config(steps=5, ranks=2, layers=1, missing_rank=rank, missing_share=0.2))[0].truth
        for rank in (None, 0)
    )
    lost = [i for i, one in enumerate(lossy["collectives"]) if not one["recorded"]]
    assert len(lost) == len(lossy["collectives"]) // 5 and {b - a for a, b in pairwise(lost)} == {5}
    assert [c | {"recorded": True} for c in lossy["collectives"]] == whole["collectives"]
    assert lossy["operators"].keys() == whole["operators"].keys()
    kernels = [t["devices"]["0"]["communication_kernels"] for t in (whole, lossy)]
    assert kernels == [len(whole["collectives"]), len(whole["collectives"]) - len(lost)]


def test_a_late_recording_is_the_end_of_the_whole_one() -> None:
    whole, late = (
        synthetic.generate(synthetic.Config(steps=3, ranks=2, layers=1, late_rank=rank, late_steps=2))
        for rank in (None, 0)
    )
    keys = ("name", "start_ns", "dur_ns", "device_work_launched_ns")  # what step 1 left on the device was not recorded
    assert [[s[k] for k in keys] for s in late[0].truth["steps"]] == [
        [s[k] for k in keys] for s in whole[0].truth["steps"][2:]
    ]
    assert late[0].truth["collectives"] == [c for c in whole[0].truth["collectives"] if c["step"] == 2]
    assert late[1].truth == whole[1].truth
    events = json.loads("".join(late[0].text()), parse_float=Decimal)["traceEvents"]
    begin = min(event["ts"] for event in events if event.get("cat") in ("cpu_op", "python_function", "kernel"))
    assert begin * 1000 == late[0].truth["steps"][0]["start_ns"]


def test_the_command_writes_traces_and_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth_file = tmp_path / "truth" / "run.json"
    synthetic.main([str(tmp_path / "run"), "--steps", "1", "--ranks", "2", "--plain", "--truth", str(truth_file)])
    assert "run.json" in capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert [re.sub(r"\d{19}", "TIME", name) for name in names] == [f"rank{r}.TIME.pt.trace.json" for r in (0, 1)]
    assert json.loads(truth_file.read_text())["workers"].keys() == {"rank0", "rank1"}


@pytest.mark.parametrize("run", ["synthetic_gpu", "synthetic_ddp", "synthetic_groups"])
def test_the_committed_samples_are_what_the_generator_makes_today(run: str) -> None:
    kept = json.loads((SAMPLES / "truth" / f"{run}.json").read_text())
    workers = synthetic.generate(synthetic.Config(**kept["config"]))
    assert json.loads(json.dumps(synthetic.truth_document(workers, run))) == kept
    files = {path.name: path for path in (SAMPLES / run).iterdir()}
    assert files.keys() == {f"{worker.file_name}.gz" for worker in workers}
    for worker in workers:
        assert gzip.decompress(files[f"{worker.file_name}.gz"].read_bytes()).decode() == "".join(worker.text())
