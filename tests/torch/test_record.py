"""Recording help against PyTorch itself: `make test-torch` installs it; elsewhere these tests are skipped."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tb_plugin  # noqa: E402
from tb_plugin.errors import BadRequest  # noqa: E402
from tests.builders import model, part  # noqa: E402
from tests.depth import examples  # noqa: E402

FORWARD, BACKWARD = "nn.Module: ", "nn.Module backward: "
Ranges = list[tuple[str, int, int]]


class Block(nn.Module):
    """With a view that is changed in place, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return x + self.act(self.fc(x))


class Net(nn.Module):
    def __init__(self, again: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.emb = nn.Embedding(5, 8)
        self.blocks = nn.Sequential(Block(), Block())
        self.drop = nn.Identity()
        self.head = nn.Linear(8, 3)
        self.again = again

    def forward(self, ids: Any) -> dict[str, Any]:
        x = self.emb(ids)
        x = self.again(self.blocks, x) if self.again else self.blocks(x)
        return {"logits": self.head(self.drop(x))}


IDS = [[0, 1, 2], [3, 4, 0]]


def step(net: Any) -> None:
    out = net(torch.tensor(IDS))
    (out["logits"] if isinstance(out, dict) else out).square().mean().backward()


def recorded(work: Callable[[], object]) -> Ranges:
    """(name, start, end) of the ranges of modules, by time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        work()
    events = profiler.profiler.kineto_results.events()
    ranges = [(e.name(), e.start_ns(), e.end_ns()) for e in events if e.name().startswith("nn.Module")]
    return sorted(ranges, key=lambda one: (one[1], -one[2]))


def paths(ranges: Ranges, prefix: str) -> list[tuple[str, ...]]:
    """The path of each range, among those with the prefix, in plain Python."""
    found, open_ = [], []
    for name, start, end in ranges:
        if name.startswith(prefix):
            while open_ and open_[-1][1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1][1], f"{name} outlives {open_[-1][0]}"
            open_.append((name.removeprefix(prefix), end))
            found.append(tuple(one for one, _ in open_))
    return found


def hooks(net: Any) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in net.modules())


BLOCKS = [
    (f"blocks.{i} (Block)", *rest)
    for i in (0, 1)
    for rest in ((), (f"blocks.{i}.fc (Linear)",), (f"blocks.{i}.act (ReLU)",))
]


def test_forward_and_backward_are_one_tree() -> None:
    net = Net()
    with tb_plugin.annotate(net):
        ranges = recorded(lambda: step(net))
    inside = [("blocks (Sequential)",), *(("blocks (Sequential)", *path) for path in BLOCKS)]
    within = [("emb (Embedding)",), *inside, ("drop (Identity)",), ("head (Linear)",)]
    forward = [("Net",), *(("Net", *path) for path in within)]
    assert paths(ranges, FORWARD) == forward
    # An identity has no node of its own in the graph.
    assert sorted(paths(ranges, BACKWARD)) == sorted(path for path in forward if path[-1] != "drop (Identity)")
    begun = [name for name, *_ in ranges if name.startswith(BACKWARD)]
    assert begun[1] == f"{BACKWARD}head (Linear)" and begun[-1] == f"{BACKWARD}emb (Embedding)"


def test_nothing_is_left_behind() -> None:
    net = Net()
    with tb_plugin.annotate(net) as ranges, ranges:
        pass
    assert hooks(net) == 0
    with tb_plugin.annotate(net):
        kept: list[Any] = []
        recorded(lambda: kept.append(net(torch.tensor(IDS))["logits"]))
        assert hooks(net) == 2 * 11
    assert hooks(net) == 0
    assert recorded(lambda: kept[0].sum().backward()) == []


def test_an_exception_closes_what_it_left() -> None:
    net = Net()

    def failing(_module: Any, _args: Any, _output: Any) -> None:
        raise KeyboardInterrupt if interrupt else RuntimeError

    def work() -> None:
        hook = net.blocks[1].fc.register_forward_hook(failing)
        with pytest.raises((RuntimeError, KeyboardInterrupt)):
            step(net)
        hook.remove()
        step(net)

    for interrupt in (False, True):
        with tb_plugin.annotate(net):
            ranges = recorded(work)
        assert hooks(net) == 0
        if not interrupt:
            assert [path[0] for path in paths(ranges, FORWARD)] == ["Net"] * len(paths(ranges, FORWARD))
            assert paths(ranges, FORWARD).count(("Net",)) == 2
    with pytest.raises(RuntimeError), tb_plugin.annotate(net):
        raise RuntimeError
    assert hooks(net) == 0


def test_a_decorator() -> None:
    net = Net()
    work = tb_plugin.annotate(net)(lambda: recorded(lambda: step(net)))
    assert len(paths(work(), FORWARD)) == len(paths(work(), FORWARD)) == 11
    assert hooks(net) == 0


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_calls_stand_in_the_backward_pass(reentrant: bool) -> None:
    net = Net(lambda *given: checkpoint(*given, use_reentrant=reentrant))
    plain = copy.deepcopy(net)
    with tb_plugin.annotate(net):
        ranges = recorded(lambda: step(net))
    step(plain)
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    assert [name for name, *_ in ranges].count(f"{FORWARD}blocks.0.fc (Linear)") == 2
    backward = paths(ranges, BACKWARD)
    assert {path[-1] for path in backward} >= {"Net", "blocks.0.fc (Linear)", "emb (Embedding)"}
    assert all(path[0] == "Net" for path in backward)


class Tree(nn.Module):
    """Modules in turn, each perhaps around a residual, and nothing of them where gradients are off."""

    def __init__(self, parts: list[Any], residual: bool) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.residual = residual

    def forward(self, x: Any) -> Any:
        y = x
        for one in self.parts:
            y = one(y)
        return x + y if self.residual else y


LEAVES = st.sampled_from(
    [
        lambda: nn.Linear(4, 4),
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)),
        nn.Tanh,
        lambda: nn.LayerNorm(4),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda parts, residual: lambda: Tree([one() for one in parts], residual),
        st.lists(inner, min_size=1, max_size=3),
        st.booleans(),
    ),
    max_leaves=8,
)


@examples(15, 200)
@given(TREES)
def test_any_model_goes_back_as_it_came(make: Callable[[], Any]) -> None:
    """Every backward range stands where its call stood, none is lost, and gradients are those without ranges."""
    torch.manual_seed(0)
    net = Tree([nn.Linear(4, 4), make()], False)
    plain = copy.deepcopy(net)
    x = torch.randn(2, 3, 4)
    with tb_plugin.annotate(net):
        ranges = recorded(lambda: net(x).sum().backward())
    plain(x).sum().backward()
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    assert set(paths(ranges, BACKWARD)) == set(paths(ranges, FORWARD))


def test_lightning() -> None:
    lightning = pytest.importorskip("lightning")

    class Lit(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, _index: int) -> Any:
            return self.net(batch)["logits"].square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    lit = Lit()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_steps=2, accelerator="cpu", enable_model_summary=False, **quiet)
    with tb_plugin.annotate(lit):
        ranges = recorded(lambda: trainer.fit(lit, torch.utils.data.DataLoader(torch.tensor(IDS), batch_size=1)))
    assert paths(ranges, FORWARD).count(("net (Net)", "net.head (Linear)")) == 2
    assert paths(ranges, BACKWARD).count(("net (Net)", "net.head (Linear)")) == 2


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_names_do_not_depend_on_ddp(one_rank: None) -> None:
    net = Net()
    with tb_plugin.annotate(net):
        alone = paths(recorded(lambda: step(net)), FORWARD)
    wrapped = nn.parallel.DistributedDataParallel(net)
    with tb_plugin.annotate(wrapped):
        ranges = recorded(lambda: step(wrapped))
    outer = "DistributedDataParallel"
    assert paths(ranges, FORWARD) == [(outer,), *((outer, *path) for path in alone)]
    assert (outer, "Net", "head (Linear)") in paths(ranges, BACKWARD)


def test_compiled_code_is_named_as_a_whole() -> None:
    net = Net()
    compiled = torch.compile(net, backend="eager")
    count = torch._dynamo.utils.counters["stats"]
    count.clear()
    with pytest.warns(UserWarning, match="get no ranges of their own: OptimizedModule"), tb_plugin.annotate(compiled):
        step(compiled)
        ranges = recorded(lambda: step(compiled))
    assert [name for name, *_ in ranges] == [f"{FORWARD}OptimizedModule", f"{BACKWARD}OptimizedModule"]
    step(compiled)
    assert count["unique_graphs"] == 1 and hooks(net) == 0  # compiled once, whatever hooks come and go


def test_only_modules() -> None:
    with pytest.raises(BadRequest, match=r"nn\.Module"):
        tb_plugin.annotate("model")


def profiled(folder: Path, steps: int, **given: Any) -> list[Path]:
    net = Net()
    with (
        tb_plugin.profile(
            folder, activities=[torch.profiler.ProfilerActivity.CPU], worker_name="w", **given
        ) as profiler,
        tb_plugin.annotate(net),
    ):
        for _ in range(steps):
            step(net)
            profiler.step()
    return sorted(folder.glob("*"))


def test_a_recording_opens_in_our_views(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (path,) = profiled(tmp_path, 6, with_stack=False)
    assert path.name.startswith("w.") and path.name.endswith(".pt.trace.json.gz")
    table = model(path)
    assert list(table.steps.label) == ["3", "4", "5"]
    modules: Any = part(table, "modules").payloads["tree"]
    assert [row["module"] for row in modules.rows][:3] == ["Net", "emb (Embedding)", "blocks (Sequential)"]
    assert all(row["calls"] == 3 for row in modules.rows)
    assert all(row["backward_host_total_ns"] > 0 for row in modules.rows if row["module"] != "drop (Identity)")
    phases: Any = part(table, "phases").payloads["tree"]
    names = [row["phase"] for row in phases.rows]
    steps = names.index("ProfilerStep#*")
    assert [names[i] for i, above in enumerate(phases.parent) if above == steps] == [f"{FORWARD}Net", f"{BACKWARD}Net"]


def test_schedules(tmp_path: Path) -> None:
    assert profiled(tmp_path / "short", 2) == []
    assert len(profiled(tmp_path / "no_wait", 4, wait=0, active=1, use_gzip=False)) == 1
    files = profiled(tmp_path / "twice", 9, wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [list(model(path).steps.label) for path in files] == [["3", "4"], ["7", "8"]]


def test_a_trace_that_gets_too_large_is_told_before_it_is_recorded(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match=r"3 recorded steps will produce a trace of about \d+ MB, more than 0 MB"
    ) as told:
        files = profiled(tmp_path, 6, large_mb=0, use_gzip=False)
    assert len(told) == len(files) == 1


def test_recording_on_demand(tmp_path: Path) -> None:
    net = Net()
    options = {"activities": [torch.profiler.ProfilerActivity.CPU], "worker_name": "w", "with_stack": False}
    with (
        warnings.catch_warnings(),
        tb_plugin.record.on_demand(tmp_path, steps=2, check_seconds=0, **options) as recorder,
    ):
        warnings.simplefilter("error")
        for number in range(16):
            if number in (3, 10):
                (tmp_path / "record-now").touch()
            step(net)
            recorder.step()
    files = sorted(tmp_path.glob("*.pt.trace.json.gz"))
    assert [list(model(path).steps.label) for path in files] == [["5", "6"], ["12", "13"]]
    assert not (tmp_path / "record-now").exists()


def test_marks_of_own_hooks_are_paired(tmp_path: Path) -> None:
    """Hooks of a user that write a mark before and after the backward pass of a module."""

    def mark(text: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            with torch.profiler.record_function(text):
                pass

        return hook

    net = Net()
    for name, module in (("blocks", net.blocks), ("head", net.head)):
        module.register_full_backward_pre_hook(mark(f"before backward of {name}"))
        module.register_full_backward_hook(mark(f"after backward of {name}"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            net(torch.tensor(IDS))["logits"].square().mean().backward()
    path = tmp_path / "w.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    table = model(path)
    assert not table.overlaps.any() and not [one for one in table.report.issues if one.code == "unpaired_marks"]
    phases = {row["phase"]: row for row in part(table, "phases").frames["phases"].data.to_pylist()}
    assert phases["backward of blocks"]["calls"] == phases["backward of head"]["calls"] == 3
    names = [table.strings[int(name)] for name in table.name]
    ranges = [row for row, name in enumerate(names) if name == "backward of blocks"]
    inside = [
        {name for row, name in enumerate(names) if start <= table.start_ns[row] < end}
        for start, end in ((table.start_ns[row], table.start_ns[row] + table.dur_ns[row]) for row in ranges)
    ]
    assert all({"AddmmBackward0", "ReluBackward0"} <= found and "PowBackward0" not in found for found in inside)
