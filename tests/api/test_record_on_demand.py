"""Recording on demand with a fake profiler. tests/torch uses the profiler of PyTorch."""

from __future__ import annotations

import signal
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tb_plugin
from tb_plugin import record
from tb_plugin.errors import BadRequest


class FakeTorch(types.ModuleType):
    """``torch`` and ``torch.profiler`` in one, with the schedule of PyTorch."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.world = 1
        self.made: list[FakeProfiler] = []
        self.broken = ""
        self.profiler = self.distributed = self
        self.ProfilerAction = types.SimpleNamespace(RECORD_AND_SAVE="save")

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.world > 1

    def get_world_size(self) -> int:
        return self.world

    def schedule(self, *, wait: int, warmup: int, active: int, repeat: int, skip_first: int) -> Any:
        def action(step: int) -> str:
            assert step >= 0 and repeat == 1 and wait == skip_first == 0
            return "warmup" if step < warmup else "record" if step < warmup + active else "none"

        return action

    def tensorboard_trace_handler(self, directory: str, worker_name: str | None, use_gzip: bool) -> Any:
        return lambda profiler: Path(directory, f"{worker_name}.{profiler.recorded[0]}.pt.trace.json").write_text("{}")

    def profile(self, **given: Any) -> FakeProfiler:
        return FakeProfiler(self, given)


class FakeProfiler:
    def __init__(self, torch: FakeTorch, given: dict[str, Any]) -> None:
        self.torch, self.given, self.schedule = torch, given, given["schedule"]
        self.step_num = 0
        self.recorded: list[int] = []
        self.ended = ""

    def start(self) -> None:
        self.torch.made.append(self)
        self._fail("start")
        self.note()

    def note(self) -> None:
        if self.schedule(self.step_num) == "record":
            self.recorded.append(self.step_num)

    def step(self) -> None:
        self._fail("step")
        was = self.schedule(self.step_num)
        self.step_num += 1
        self.note()
        if was == "record" and self.schedule(self.step_num) == "none":
            self._fail("write")
            self.given["on_trace_ready"](self)

    def stop(self) -> None:
        self.ended = "stopped"
        if self.schedule(self.step_num) == "record":
            self.given["on_trace_ready"](self)

    def _fail(self, where: str) -> None:
        if self.torch.broken == where:
            raise RuntimeError(f"cannot {where}")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTorch]:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "torch.profiler", fake)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield fake


def steps(recorder: record.OnDemand, count: int) -> None:
    for _ in range(count):
        recorder.step()


def traces(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.json"))


def test_a_file_requests_one_recording(torch: FakeTorch, tmp_path: Path) -> None:
    logs = tmp_path / "new" / "logs"
    recorder = tb_plugin.record.on_demand(logs, steps=2, check_seconds=0, worker_name="w", with_stack=False)
    steps(recorder, 3)
    assert torch.made == [] and list(logs.iterdir()) == []
    (logs / "record-now").touch()
    steps(recorder, 20)
    (profiler,) = torch.made
    assert profiler.recorded == [5, 6], "numbers of the training, after one step of warm-up"
    assert profiler.ended == "stopped" and profiler.given["with_stack"] is False
    assert sorted(path.name for path in logs.iterdir()) == ["recording", "w.5.pt.trace.json"]
    (logs / "record-now").touch()
    steps(recorder, 20)
    assert len(torch.made) == 2


def test_an_idle_recorder_looks_rarely(torch: FakeTorch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = 0.0, 0

    def exists(path: Path) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(record.time, "monotonic", lambda: now)
    monkeypatch.setattr(Path, "exists", exists)
    recorder = record.on_demand(tmp_path, check_seconds=5)
    for _ in range(1000):
        now += 0.01
        recorder.step()
    assert looks == 1


def test_all_ranks_record_the_same_steps_once(torch: FakeTorch, tmp_path: Path) -> None:
    torch.world = 3
    old = [record.on_demand(tmp_path, steps=2, check_seconds=0, worker_name=f"r{rank}") for rank in range(3)]
    (tmp_path / "record-now").touch()
    for _ in range(20):
        for recorder in old:
            recorder.step()
    assert [profiler.recorded for profiler in torch.made] == [[4, 5]] * 3
    new = record.on_demand(tmp_path, steps=2, check_seconds=0, worker_name="restarted")
    steps(new, 20)
    assert len(torch.made) == 3, "an answered request is over"


def test_a_late_rank_keeps_the_numbers_of_its_steps(torch: FakeTorch, tmp_path: Path) -> None:
    torch.world = 2
    first, late = (record.on_demand(tmp_path, steps=3, check_seconds=0, worker_name=name) for name in "ab")
    (tmp_path / "record-now").touch()
    steps(first, 10)
    late._next_check, late._step = 0, 4
    steps(late, 10)
    assert [profiler.recorded for profiler in torch.made] == [[4, 5, 6], [6, 7, 8]]


def test_ranks_at_once_claim_a_request_once(torch: FakeTorch, tmp_path: Path) -> None:
    recorders = [record.on_demand(tmp_path, steps=1, check_seconds=0, worker_name=str(rank)) for rank in range(8)]
    (tmp_path / "record-now").touch()
    # So many steps that each rank still runs when another one has claimed the request.
    threads = [threading.Thread(target=steps, args=(recorder, 2_000)) for recorder in recorders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(profiler.recorded) for profiler in torch.made) == [1] * 8
    assert [path.name for path in tmp_path.glob("record*")] == ["recording"]


def test_a_signal_makes_one_process_record(torch: FakeTorch, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    with record.on_demand(tmp_path, steps=2, signal_number=signal.SIGUSR2, worker_name="w") as recorder:
        steps(recorder, 2)
        signal.raise_signal(signal.SIGUSR2)
        steps(recorder, 3)
        assert torch.made[0].recorded == [4, 5]
    assert traces(tmp_path) == ["w.4.pt.trace.json"], "a recording that still runs is written at the end"
    assert signal.getsignal(signal.SIGUSR2) == before


@pytest.mark.parametrize("where", ["start", "step", "write"])
def test_a_failed_recording_does_not_end_the_training(torch: FakeTorch, tmp_path: Path, where: str) -> None:
    recorder = record.on_demand(tmp_path, steps=1, check_seconds=0, worker_name="w")
    torch.broken = where
    (tmp_path / "record-now").touch()
    with pytest.warns(UserWarning, match=f"training continues: cannot {where}"):
        steps(recorder, 10)
    torch.broken = ""
    (tmp_path / "record-now").touch()
    steps(recorder, 10)
    assert len(traces(tmp_path)) == 1


@pytest.mark.parametrize("content", ["", "soon\n"])
def test_a_broken_plan_turns_it_off(torch: FakeTorch, tmp_path: Path, content: str) -> None:
    recorder = record.on_demand(tmp_path, check_seconds=0)
    (tmp_path / "recording").write_text(content)
    with pytest.warns(UserWarning, match="Recording on demand is off") as told:
        steps(recorder, 5)
    assert len(told) == 1 and torch.made == []


def test_mistakes_are_reported_at_once(torch: FakeTorch, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="schedule is not valid"):
        record.on_demand(tmp_path, steps=0)
    with pytest.raises(TypeError, match="with_stacks"):
        record.on_demand(tmp_path, with_stacks=True)
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match="directory cannot be created"):
        record.on_demand(tmp_path / "file" / "logs")
    with pytest.raises(BadRequest, match="signal cannot be used"):
        record.on_demand(tmp_path, signal_number=9999)
