"""What is worked out of a model is kept with it: the last values, within a bound in which shared memory counts once."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from tb_plugin.lib import model_cache
from tb_plugin.lib.model_cache import Memo, cached_by_argument, size_of

MEGABYTE = 1_000_000


class Owner:
    """Something that numbers are worked out of."""


@dataclass(frozen=True, eq=False)
class Model:
    column: np.ndarray


def table() -> pa.Table:
    return pa.table({"x": pa.array([0] * (MEGABYTE // 8), pa.int64())})


def never():
    pytest.fail("it was kept")


def test_the_value_used_longest_ago_goes_first():
    store, owner = Memo(int(2.5 * MEGABYTE)), Owner()
    first = store.get(owner, "a", table)
    store.get(owner, "b", table)
    assert store.get(owner, "a", never) is first
    third = store.get(owner, "c", table)
    assert store.get(owner, "a", never) is first and store.get(owner, "c", never) is third
    assert store.get(owner, "b", lambda: 5) == 5
    assert store.bytes == pytest.approx(2 * MEGABYTE, rel=0.01)


def test_a_value_larger_than_the_bound_is_kept_alone():
    store, owner = Memo(MEGABYTE // 2), Owner()
    store.get(owner, "small", lambda: [1])
    large = store.get(owner, "large", table)
    assert store.get(owner, "large", never) is large
    assert store.get(owner, "small", lambda: "anew") == "anew"


def test_what_values_share_counts_once_and_as_long_as_one_holds_it():
    store, owner = Memo(int(2.5 * MEGABYTE)), Owner()
    shared = table()
    for i in range(20):
        store.get(owner, i, lambda: (shared,))
    store.get(owner, 0, never)
    assert store.bytes == pytest.approx(MEGABYTE, rel=0.01)
    for name in ("other", "third"):
        store.get(owner, name, table)
    # The shared table leaves with the last of those that hold it, not with the first, and then there is room.
    assert store.get(owner, "third", never) is not None
    assert store.get(owner, 0, lambda: "anew") == "anew"


def test_values_go_with_their_owner_even_where_they_point_to_it():
    store = Memo()

    def use(owner):
        store.get(owner, "a", lambda: (owner, table()))

    use(Owner())
    assert store.bytes > MEGABYTE
    gc.collect()
    store.get(Owner(), "b", lambda: 1)
    assert store.bytes < 1000


def test_forgetting_one_key_or_all_of_an_owner():
    store, one, other = Memo(), Owner(), Owner()
    for owner in (one, other):
        for key in ("a", "b"):
            store.get(owner, key, lambda: 1)
    store.forget(one, "a")
    assert (store.get(one, "a", lambda: 2), store.get(one, "b", never), store.get(other, "a", never)) == (2, 1, 1)
    store.forget(one)
    assert (store.get(one, "a", lambda: 3), store.get(one, "b", lambda: 3), store.get(other, "b", never)) == (3, 3, 1)


def test_the_model_s_own_columns_cost_nothing_and_what_is_worked_out_does():
    model = Model(np.zeros(1000, np.int64))
    assert size_of((model, model.column, model.column[10:]), model) < 500
    assert 8000 < size_of(model.column + 1, model) < 9000
    assert 8000 < size_of([(model.column + 1)[5:]], model) < 9000
    assert size_of([f"name {i}" for i in range(10_000)]) == pytest.approx(10_000 * 109, rel=0.1)


def test_a_remembered_function_is_called_once_for_each_question(monkeypatch):
    monkeypatch.setattr(model_cache, "MEMO", Memo())
    calls = []

    @cached_by_argument
    def times(model: Model, factor: int = 1) -> int:
        """The sum."""
        calls.append(factor)
        return int(model.column.sum()) * factor

    one, other = Model(np.arange(3)), Model(np.arange(4))
    assert [times(one), times(one), times(one, 2), times(one, factor=2), times(other)] == [3, 3, 6, 6, 6]
    assert calls == [1, 2, 2, 1]
    assert times.__doc__ == "The sum."
    model_cache.drop_cached(one, times)
    assert (times(one), len(calls)) == (3, 5)


def test_what_raises_is_not_kept():
    store, owner = Memo(), Owner()
    with pytest.raises(KeyError):
        store.get(owner, "a", lambda: {}["no"])
    assert store.get(owner, "a", lambda: 1) == 1
