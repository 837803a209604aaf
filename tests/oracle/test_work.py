"""FLOPs and bytes of TraceLens, per operator and shape, on its own traces (../shared/data/tracelens).

The numbers are those of the reports in the tests of TraceLens (MIT). They name some operators by the call around that
which has our formula: ``aten::convolution`` by ``aten::miopen_convolution``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest

from tb_plugin.analysis.work.formulas import work_of
from tb_plugin.analysis.work.inputs import Work
from tb_plugin.lib.groupby import places_of
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.conftest import SHARED, loaded

NSFW = "h100/Falconsai_nsfw_image_detection__1016002.json.gz"
BERT = "h100/gaunernst_bert-small-uncased__1016001.json.gz"
RESNET = "mi300/resnet_act_checkpoint.json.gz"
VLLM = "vllm_decode_full/graph_execution.json.gz"
CAPTURE = "vllm_decode_full/capture_traces/graph_capture_rank_0.1773709742341309550.pt.trace.json.gz"


class Expected(NamedTuple):
    operator: str
    shapes: list[list[int]]
    """Of the first inputs."""
    gflops: float
    mebibytes: float


ROWS = {
    NSFW: [
        Expected("aten::addmm", [[768], [788, 768], [768, 768]], 0.930167808, 3.43505859375),
        Expected("aten::addmm", [[3072], [788, 768], [768, 3072]], 3.720671232, 10.27734375),
        Expected("aten::addmm", [[768], [788, 3072], [3072, 768]], 3.71885568, 10.27294921875),
        Expected("aten::convolution", [[4, 3, 224, 224], [768, 3, 16, 16]], 0.924844032, 3.421875),
        Expected("aten::_scaled_dot_product_flash_attention", [[4, 12, 197, 64]] * 3, 0.476884992, 4.6171875),
        Expected("aten::layer_norm", [[4, 197, 768]], 0.003030528, 2.3173828125),
        Expected("aten::add", [[4, 197, 768]] * 2, 0.000605184, 3.462890625),
    ],
    BERT: [
        Expected("aten::addmm", [[512], [141, 512], [512, 512]], 0.0739968, 0.7763671875),
        Expected("aten::addmm", [[30522], [141, 512], [512, 30522]], 4.41119205, 38.211021423339844),
        Expected("aten::addmm", [[512], [141, 2048], [2048, 512]], 0.295770624, 2.689453125),
        Expected("aten::addmm", [[2048], [141, 512], [512, 2048]], 0.2959872, 2.6923828125),
        Expected("aten::_scaled_dot_product_flash_attention", [[1, 8, 141, 64]] * 3, 0.040716288, 0.55078125),
        Expected("aten::layer_norm", [[1, 141, 512]], 0.000364032, 0.28125),
        Expected("aten::add", [[1, 141, 512]] * 2, 7.2192e-05, 0.4130859375),
    ],
    RESNET: [
        Expected("aten::mm", [[10, 1000], [1000, 512]], 0.01024, 1.005401611328125),
        Expected("aten::mm", [[1000, 10], [10, 512]], 0.01024, 1.005401611328125),
        Expected("aten::addmm", [[1000], [10, 512], [512, 1000]], 0.01025, 1.0073089599609375),
        Expected("aten::convolution", [[10, 64, 56, 56], [64, 64, 3, 3]], 2.31211008, 7.7265625),
        Expected("aten::convolution", [[10, 512, 7, 7], [512, 512, 3, 3]], 2.31211008, 5.45703125),
        Expected("aten::convolution", [[10, 256, 14, 14], [256, 256, 3, 3]], 2.31211008, 3.0390625),
        Expected("aten::convolution", [[10, 128, 28, 28], [128, 128, 3, 3]], 2.31211008, 4.109375),
        Expected("aten::convolution_backward", [[10, 64, 56, 56]] * 2 + [[64, 64, 3, 3]], 4.62422016, 15.453125),
        Expected("aten::convolution_backward", [[10, 512, 7, 7]] * 2 + [[512, 512, 3, 3]], 4.62422016, 10.9140625),
        Expected("aten::convolution_backward", [[10, 128, 28, 28]] * 2 + [[128, 128, 3, 3]], 4.62422016, 8.21875),
        Expected("aten::native_batch_norm", [[10, 64, 56, 56]], 0.010035584, 7.656982421875),
        Expected("aten::native_batch_norm_backward", [[10, 64, 112, 112]] * 2, 0.07225344, 45.93798828125),
        Expected("aten::native_batch_norm_backward", [[10, 64, 56, 56]] * 2, 0.01806336, 11.48486328125),
        Expected("aten::sum", [[10, 1000]], 1e-05, 0.019075393676757812),
        Expected("aten::mean", [[10, 512, 7, 7]], 0.00025088, 0.4785175323486328),
        Expected("aten::add_", [[10, 64, 56, 56]] * 2, 0.00200704, 11.484375),
        Expected("aten::add_", [[10, 128, 28, 28]] * 2, 0.00100352, 5.7421875),
        Expected("aten::mul", [[512], [], [512]], 5.12e-07, 0.00196075439453125),
        Expected("aten::clamp_min_", [[10, 64, 56, 56]], 0.00200704, 7.65625),
        Expected("aten::clamp_min_", [[10, 512, 7, 7]], 0.00025088, 0.95703125),
        Expected("aten::threshold_backward", [[10, 64, 56, 56]] * 2, 0.00200704, 11.484375),
        Expected("aten::copy_", [[64, 64, 3, 3]] * 2, 3.6864e-05, 0.140625),
        Expected("aten::copy_", [[512, 512, 3, 3]] * 2, 0.002359296, 9.0),
    ],
    VLLM: [
        Expected("vllm::rocm_unquantized_gemm", [[32, 2880], [201088, 2880]], 37.06454016, 1117.05859375),
        Expected("aten::mm", [[32, 2880], [2880, 201088]], 37.06454016, 1117.05859375),
    ],
    CAPTURE: [
        Expected("vllm::rocm_unquantized_gemm", [[32, 2880], [5120, 2880], [5120]], 0.94388224, 28.623046875),
        Expected("vllm::rocm_unquantized_gemm", [[32, 4096], [2880, 4096], [2880]], 0.75506688, 22.9312744140625),
        Expected("aten::addmm", [[32], [32, 2880], [2880, 32]], 0.005899264, 0.35357666015625),
        Expected("aiter::rmsnorm2d_fwd_with_add_ck", [[32, 2880]] * 4, 0.000460864, 0.7086181640625),
        Expected("aiter::rms_norm", [[32, 2880], [2880]], 0.000368704, 0.3570556640625),
    ],
}  # fmt: skip

APART = {
    ("aten::convolution_backward", "bytes"): "TraceLens reads the gradient of the output once for each product.",
    ("aten::sum", "bytes"): "TraceLens counts one output, ours one per column that is left.",
    ("aten::mean", "bytes"): "TraceLens counts one output, ours one per image and channel.",
    ("aten::mul", "bytes"): "TraceLens counts a number on the CPU as 8 bytes.",
    ("aten::threshold_backward", "flops"): "TraceLens counts one operation per element, ours three.",
    ("aten::copy_", "flops"): "TraceLens counts one operation per element, ours none.",
    ("aiter::rmsnorm2d_fwd_with_add_ck", "flops"): "TraceLens leaves out the addition of the residual.",
}
"""Numbers that both define, but not in the same way."""
NORMS = 0.02
"""TraceLens adds the statistics of each channel to the operations and bytes of norms."""
IS_NORM = ("aten::layer_norm", "aten::native_batch_norm", "aten::native_batch_norm_backward", "aiter::rms_norm")


def works(table: TraceTable) -> dict[tuple[str, str], list[Work | None]]:
    """Returns, by operator and shapes, the work of each call, or of the first call inside that has a formula."""
    args, place = table.operators, places_of(table.operators.row, len(table))
    found = []
    for row in range(len(table)):
        at = place[row]
        told = None
        if table.kind[row] == EventKind.OPERATOR and at != MISSING:
            ids = (table.name[row], args.shapes[at], args.types[at], args.concrete[at])
            told = work_of(*("" if i == MISSING else table.strings[int(i)] for i in ids))
        found.append(told)
    own = [each is not None for each in found]
    for row in np.flatnonzero(table.kind == EventKind.OPERATOR)[
        ::-1
    ]:  # children come after parents: the first one stays
        above = table.operator[row]
        if found[row] is not None and above != MISSING and not own[above]:
            found[above] = found[row]
    named: dict[tuple[str, str], list[Work | None]] = defaultdict(list)
    for row, at in zip(args.row.tolist(), range(len(args.row)), strict=True):
        if args.shapes[at] != MISSING:
            named[table.strings[int(table.name[row])], table.strings[int(args.shapes[at])]].append(found[row])
    return named


@pytest.mark.parametrize("path", ROWS)
def test_work_of_tracelens(path: str) -> None:
    if not (SHARED / "data" / "tracelens" / path).is_file():
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    named = works(loaded(f"{SHARED.name}/data/tracelens/{path}"))
    for row in ROWS[path]:
        start = str(row.shapes)[:-1]
        calls = [each for (name, shapes), all_of in named.items() if name == row.operator for each in all_of
                 if shapes.startswith(start) and shapes[len(start)] in ",]"]  # fmt: skip
        assert calls and None not in calls, row
        near = NORMS if row.operator in IS_NORM else 1e-9
        for work in calls:
            assert work is not None
            pairs = {"flops": (work.flops, row.gflops * 1e9), "bytes": (work.bytes, row.mebibytes * 2**20)}
            for number, (ours, theirs) in pairs.items():
                is_equal = ours == pytest.approx(theirs, rel=near)
                assert is_equal != ((row.operator, number) in APART), (row, number, ours, theirs)
