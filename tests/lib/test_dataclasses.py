"""Our frozen dataclasses do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from functools import cached_property

import pytest

from tb_plugin.lib.dataclasses import dataclass


def classes(dataclass):
    @dataclass(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=7, repr=False)
        fixed: int = field(default=5, init=False)

        @cached_property
        def total(self):
            return self.x + self.y

    @dataclass(frozen=True)
    class Named(Point):
        """A point with a name."""

        name: str = field(default="", kw_only=True)

        def __post_init__(self):
            object.__setattr__(self, "hidden", 8)

    @dataclass(frozen=True, eq=False)
    class Plain:
        """Compared by identity."""

        x: int = 0

    return Point, Named, Plain


@dataclass(frozen=True)
class Kept:
    x: int
    of: tuple[int, ...] = ()


@pytest.fixture(params=[dataclass, dataclasses.dataclass], ids=["ours", "standard"])
def made(request):
    return classes(request.param)


def test_fields_defaults_and_order(made):
    point, named, _ = made
    assert dataclasses.asdict(point(1)) == {"x": 1, "y": 2, "tags": [], "hidden": 7, "fixed": 5}
    assert dataclasses.astuple(named(1, 3, name="a")) == (1, 3, [], 8, 5, "a")
    assert point(1).tags is not point(1).tags
    assert point.__match_args__ == ("x", "y", "tags", "hidden")
    with pytest.raises(TypeError):
        point()
    with pytest.raises(TypeError):
        point(1, fixed=3)


@pytest.mark.parametrize("which", [dataclass, dataclasses.dataclass], ids=["ours", "standard"])
def test_fields_may_have_any_name(which):
    @which(frozen=True)
    class Odd:
        """Names that a constructor might use itself."""

        values: int
        cls: int
        fields: int = 3

    assert dataclasses.astuple(Odd(1, 2)) == (1, 2, 3)


def test_equality_and_hash(made):
    point, named, plain = made
    assert point(1, tags=["a"]) == point(1) and hash(point(1)) == hash(point(1))
    assert point(1) != point(2) and point(1) != named(1) and point(1) != 1
    assert plain(1) != plain(1) and len({plain(1), plain(1)}) == 2


def test_repr(made):
    point, named, _ = made
    assert repr(point(1)).endswith("Point(x=1, y=2, tags=[], fixed=5)")
    assert repr(named(1, name="n")).endswith("Named(x=1, y=2, tags=[], fixed=5, name='n')")


def test_nothing_is_assigned(made):
    one = made[0](1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    assert one.total == 3 and one.total == 3


def test_replace_and_copy(made):
    point = made[0]
    assert dataclasses.replace(point(1), y=5) == point(1, 5)
    assert copy.copy(point(1)) == point(1) == copy.deepcopy(point(1))
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))
