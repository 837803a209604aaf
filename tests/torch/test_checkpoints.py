"""Activation checkpoints as PyTorch itself runs and records them: what is computed again is what was wrapped, and no more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tb_plugin.analysis.recomputation import Sign, recomputations  # noqa: E402
from tb_plugin.model.trace.table import TraceTable  # noqa: E402
from tests.builders import model  # noqa: E402


class Block(nn.Module):
    """Two products, a norm and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.back = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        return x + self.back(nn.functional.gelu(self.wide(self.norm(x))))


def recorded(path: Path, reentrant: bool | None, stacks: bool, twice: bool = False) -> TraceTable:
    """Two steps of four blocks, of which every second one is a checkpoint (None: none is)."""
    blocks, x = [Block() for _ in range(4)], torch.randn(8, 16, requires_grad=True)

    def step() -> None:
        y = x
        for i, block in enumerate(blocks):
            y = block(y) if reentrant is None or i % 2 else checkpoint(block, y, use_reentrant=reentrant)
        loss = y.pow(2).sum()
        if twice:
            (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
            loss = loss + gradient.pow(2).sum()
        loss.backward()

    step()
    with profile(activities=[ProfilerActivity.CPU], with_stack=stacks) as recording:
        for _ in range(2):
            step()
            recording.step()
    recording.export_chrome_trace(str(path / "worker0.pt.trace.json"))
    return model(path / "worker0.pt.trace.json")


@pytest.mark.parametrize("stacks", [False, True], ids=["operators", "stacks"])
@pytest.mark.parametrize("reentrant", [False, True], ids=["hook", "reentrant"])
def test_a_checkpoint_is_a_recomputation(tmp_path: Path, reentrant: bool, stacks: bool) -> None:
    table = recorded(tmp_path, reentrant, stacks)
    found = recomputations(table)
    sign = Sign.FUNCTION if reentrant else Sign.FRAME if stacks else Sign.SEQUENCE
    assert found.sign.tolist() == [sign] * 4
    names = Counter(table.strings[i] for i in table.name[found.operator])
    assert (names["aten::linear"], names["aten::gelu"], names["aten::layer_norm"]) == (8, 4, 4)
    assert not [name for name in names if "backward" in name.lower()]


@pytest.mark.parametrize("stacks", [False, True], ids=["operators", "stacks"])
@pytest.mark.parametrize("twice", [False, True], ids=["once", "create_graph"])
def test_without_a_checkpoint_there_is_none(tmp_path: Path, twice: bool, stacks: bool) -> None:
    assert len(recomputations(recorded(tmp_path, None, stacks, twice))) == 0
