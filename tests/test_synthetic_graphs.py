"""The generator of replays. ``graphs/test_truth.py`` and others compare its truth with what the plugin finds."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests import synthetic_graphs as graphs
from tests.synthetic_graphs import Plan

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
Json = dict[str, Any]


def test_unknown_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="only a capture beside"):
        Plan(wrong="kernel")
    with pytest.raises(ValueError, match="capture is one of"):
        Plan(capture="somewhere")
    with pytest.raises(ValueError, match="only CUDA"):
        Plan(arch="rocm", annotations=True)
    with pytest.raises(ValueError, match="batches differ"):
        Plan(batches=(8, 8))


@pytest.mark.parametrize("run", ["synthetic_graphs", "synthetic_graphs_beside"])
def test_the_committed_samples_are_what_the_generator_makes_today(run: str) -> None:
    kept = json.loads((SAMPLES / "truth" / f"{run}.json").read_text())
    files, truth = graphs.generate(Plan(**kept["plan"]))
    assert json.loads(json.dumps(truth)) == kept
    folder = SAMPLES / run
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {f"{file.path}.gz" for file in files}
    for file in files:
        assert gzip.decompress((folder / f"{file.path}.gz").read_bytes()).decode() == file.text()


def test_the_command_writes_the_files_and_their_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = tmp_path / "truth.json"
    graphs.generator.main(
        [str(tmp_path / "run"), "--layers", "1", "--capture", "sibling", "--plain", "--truth", str(truth)]
    )
    names = sorted(path.name.split(".")[0] for path in (tmp_path / "run").iterdir())
    assert names == ["worker0", "worker0_capture"] and "truth.json" in capsys.readouterr().out
    assert json.loads(truth.read_text())["way"] == "capture_trace"
