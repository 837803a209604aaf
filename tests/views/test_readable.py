"""Names as they stood in the source: what is mangled is read, all else stays, and nothing takes long."""

from __future__ import annotations

import time

from tb_plugin.analysis.demangle import readable_names
from tests.builders import kernel, part, row, trace

NORM = "_ZN5aiter14rmsnorm_kernelIDF16bLi256ELb0EEEvPT_i"


def test_names_are_read() -> None:
    assert readable_names([NORM, "attn_fwd", None, NORM]) == [
        "void aiter::rmsnorm_kernel<std::bfloat16_t, 256, false>(std::bfloat16_t*, int)",
        None,
        None,
        "void aiter::rmsnorm_kernel<std::bfloat16_t, 256, false>(std::bfloat16_t*, int)",
    ]


def test_what_cannot_be_read_stays_and_costs_little() -> None:
    bombs = ["_Z" + "1aI" * 2500, "_ZN" + "N" * 5000, "_Z1fI" + "S_" * 2000, "_Z" + "P" * 8000 + "i", "_Z", "_Zebra"]
    pairs = "St4pairI1a1aE" + "".join(f"S_IS{each}_S{each}_E" for each in "0123456789ABCDEFGHIJKLMNOPQRSTUV")
    begin = time.process_time()
    assert readable_names([*bombs, "_Z1f" + pairs, "_Z" + "1" * 10_000]) == [None] * (len(bombs) + 2)
    assert time.process_time() - begin < 3


def test_a_table_has_the_column_where_a_name_is_mangled() -> None:
    table = trace().op("x", 0, 1).launches(kernel(NORM, 2), kernel("attn_fwd", 1)).table()
    assert row(table, "kernels", name="attn_fwd")["readable"] is None
    frame = part(table, "kernels").frames["kernels"]
    assert [column.hidden for column in frame.columns if column.metric.key == "readable"] == [True]
    plain = part(trace().op("x", 0, 1).launches(kernel("attn_fwd")).table(), "kernels").frames["kernels"]
    assert all(column.metric.key != "readable" for column in plain.columns)
