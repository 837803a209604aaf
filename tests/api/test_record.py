"""What recording help does without PyTorch; tests/torch has the rest."""

from __future__ import annotations

import sys

import pytest

import tb_plugin
from tb_plugin.errors import BadRequest, MissingPackage


def test_without_pytorch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackage, match="needs PyTorch"):
        tb_plugin.annotate(object())
    with pytest.raises(MissingPackage, match="needs PyTorch"):
        tb_plugin.profile("runs/x")


@pytest.mark.parametrize("given", [{"active": 0}, {"wait": -1}, {"repeat": -1}])
def test_a_schedule_that_is_none(given: dict[str, int]) -> None:
    with pytest.raises(BadRequest, match="schedule is not valid"):
        tb_plugin.profile("runs/x", **given)
