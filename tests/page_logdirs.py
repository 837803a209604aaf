"""Log directories of the page's tests (frontend/tests): small, so that answers about them are."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import synthetic

EVIL = "<img src=x onerror=alert(1)>"


def _small(folder: Path) -> Path:
    """A training of two ranks (``job``); one process recorded twice, slower the second time (``twice``); one more."""
    _simulate(folder / "job", seed=2, ranks=2, slow_rank=0, slow_factor=1.6)
    for run, number, seed, factor in (("twice", 1, 1, 1.0), ("twice", 2, 2, 1.6), ("other", 1, 3, 1.0)):
        _simulate(folder / "ranks", seed=seed, ranks=1, slow_rank=0, slow_factor=factor)
        (path,) = (folder / "ranks").iterdir()
        recorded = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        recorded.pop("distributedInfo", None)  # a worker, and no rank of a job
        (folder / run).mkdir(exist_ok=True)
        time_ns = 1795200788000000000 + number * 10**9
        (folder / run / f"worker0.{time_ns}.pt.trace.json").write_text(json.dumps(recorded), encoding="utf-8")
        shutil.rmtree(folder / "ranks")
    return folder


def _simulate(folder: Path, **config: Any) -> None:
    synthetic.write(synthetic.generate(synthetic.Config(steps=3, layers=1, **config)), folder)


def _ignored(folder: Path) -> Path:
    """One run, of which a file of the log directory leaves out a finding."""
    _small(folder)
    for run in ("job", "twice"):
        shutil.rmtree(folder / run)
    (folder / "torch_trace_ignore").write_text("synchronising_calls\n<b>bold</b>\n", encoding="utf-8")
    return folder


def _odd(folder: Path) -> Path:
    """Runs that no training writes: one that is no trace, names that are markup, and many operators."""
    _write(folder, "bad", 7)
    common = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1}
    for run in ("markup_a", "markup_b"):
        outer, inner = {"name": EVIL, "ts": 10, "dur": 50}, {"name": "<b>in</b>", "ts": 20, "dur": 9}
        _write(folder, run, [{**common, **outer, "args": {}}, {**common, **inner, "args": {}}])
    for run, factor in (("many_a", 1), ("many_b", 2)):
        _write(folder, run, [{**common, "name": f"op{i}", "ts": 1000 * i, "dur": i * factor} for i in range(1, 61)])
    return folder


def _write(folder: Path, run: str, events: object) -> None:
    (folder / run).mkdir()
    path = folder / run / "worker0.1700000000000.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")


def _one(folder: Path) -> Path:
    """One profile of three steps."""
    _simulate(folder / "only", seed=1, ranks=1)
    return folder


LOGDIRS: dict[str, Callable[[Path], Path]] = {
    "small": _small,
    "ignored": _ignored,
    "odd": _odd,
    "one": _one,
}
"""Name of the file of recordings -> what fills an empty folder with its log directory."""
