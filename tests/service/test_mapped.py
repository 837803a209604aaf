"""The joined part of a run as a file that is mapped."""

from __future__ import annotations

import pytest

from tb_plugin.analyses.distributed import Distributed
from tb_plugin.errors import KeptLost
from tb_plugin.service import mapped, parts
from tb_plugin.service.opened import OpenModels
from tb_plugin.trace.memo import size_of
from tests.many_ranks import many_parts


@pytest.fixture(scope="module")
def joined():
    return Distributed().join(many_parts(8, 3, 2))


def test_a_part_comes_back_as_it_was(joined, tmp_path):
    path = tmp_path / f"run{mapped.SUFFIX}"
    mapped.write(joined, path)
    assert parts.dump(mapped.read(str(path))) == parts.dump(joined)
    assert parts.dump(OpenModels().kept_part(str(path), "")) == parts.dump(joined)


def test_what_is_cut_or_changed_is_lost(joined, tmp_path):
    path = tmp_path / f"run{mapped.SUFFIX}"
    mapped.write(joined, path)
    whole = path.read_bytes()
    for bad in (b"", whole[:9], whole[:-1], whole[8:], whole[:500] + b"?" + whole[501:], whole + b"\n"):
        path.write_bytes(bad)
        with pytest.raises(KeptLost):
            OpenModels().read_part(str(path), "")


def test_tables_that_share_columns_count_once(joined):
    calls = joined.frames["calls"].data
    other = calls.drop_columns(["worker"])
    alone = size_of(calls)
    assert alone > sum(column.nbytes for column in calls.columns) * 0.9
    assert size_of((calls, other)) < alone + 1000
