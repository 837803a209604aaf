"""The joined part of a run as a file that is mapped."""

from __future__ import annotations

import pytest

from tb_plugin.errors import CacheFileLost
from tb_plugin.lib.model_cache import size_of
from tb_plugin.service import part_codec
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.views.distributed.view import Distributed
from tests.many_ranks import many_parts


@pytest.fixture(scope="module")
def joined():
    return Distributed().join(many_parts(8, 3, 2))


def test_a_part_comes_back_as_it_was(joined, tmp_path):
    path = tmp_path / f"run{part_codec.MAPPED}"
    part_codec.write_mapped(joined, path)
    assert part_codec.dump(part_codec.read_mapped(str(path))) == part_codec.dump(joined)
    assert part_codec.dump(OpenModels().cached_part(str(path), "")) == part_codec.dump(joined)


def test_what_is_cut_or_changed_is_lost(joined, tmp_path):
    path = tmp_path / f"run{part_codec.MAPPED}"
    part_codec.write_mapped(joined, path)
    whole = path.read_bytes()
    for bad in (b"", whole[:9], whole[:-1], whole[8:], whole[:500] + b"?" + whole[501:], whole + b"\n"):
        path.write_bytes(bad)
        with pytest.raises(CacheFileLost):
            OpenModels().read_part(str(path), "")


def test_tables_that_share_columns_count_once(joined):
    calls = joined.frames["calls"].data
    other = calls.drop_columns(["worker"])
    alone = size_of(calls)
    assert alone > sum(column.nbytes for column in calls.columns) * 0.9
    assert size_of((calls, other)) < alone + 1000
