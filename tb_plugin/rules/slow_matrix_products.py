"""Matmuls far from the peak because of their shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec
import numpy as np

from tb_plugin.analysis.graphs.replays import kernel_args
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.simulate import Change
from tb_plugin.lib.arrays import Bool, Float64, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING, MatrixUse
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link, Scalar
from tb_plugin.rules._base import COMMON, MIN_SHARE, Bounds, Detection, Limit, Rule, Scene, percent
from tb_plugin.rules._matrix_products import SHORT_NS, USUAL, Products, matrix_kernels, peaks_of
from tb_plugin.rules._shapes import arguments
from tb_plugin.rules.matrix_alignment import unaligned_products
from tb_plugin.rules.unfused_attention import attention_matmuls

FAR = 2.0
"""Minimum ratio of a matmul's time to its time at peak rates. Large matmuls are faster."""
ALIGNED_BYTES = 16
"""Bytes that a thread loads at once from aligned rows."""
MAX_FILL = 0.75
"""Maximum share of the multiprocessors that compute output. Above this share, other shapes hardly help."""
METRICS = COMMON.in_steps(
    ns={"slow_product_ns": ("Slow matmuls", "Time of slow matmuls per step.")},
    ratio={
        "slow_product_peak": ("Peak share", "Time at peak rates divided by kernel time."),
        "tile_fill": ("Use of multiprocessors", "Share that computes output."),
    },
    text={
        "slow_operator": ("Operator", "Operator of slow matmuls."),
        "slow_shape": ("Input shapes", "Input shapes of slow matmuls."),
    },
    number={
        "product_tiles": ("Tiles", "Blocks of the output."),
        "unaligned_size": ("Dimension", "Dimension that is no multiple of 16 bytes."),
    },
)


class Slow(msgspec.Struct, frozen=True, eq=False):
    """Slow matmuls, one value per kernel."""

    product: Products
    needs_ns: Float64
    """Time at peak rates."""
    unaligned: Int64
    """Dimension whose rows are not a multiple of 16 bytes; 0 = the tiles are the reason."""
    tiles: Int64
    fill: Float64
    """Share of the time of all multiprocessors that computes output."""
    tile_use: Float64
    """Share of the tiles that is output."""
    most_ns: Float64
    """Upper bound of the saving."""

    def take(self, of: Bool) -> Slow:
        columns = [getattr(self, name)[of] for name in self.__struct_fields__[1:]]
        return Slow(self.product.take(of), *columns)


def slow_products(s: Scene) -> Slow:
    """Returns the matmuls whose shapes are the reason that they are slow, except those in findings of other rules."""
    trace, every = s.trace, matrix_kernels(s.trace)
    others = np.zeros(len(trace), np.bool_)
    others[unaligned_products(s)[0].row] = True
    others[attention_matmuls(s)] = True
    on_units = trace.uses_matrix_unit[every.row] == MatrixUse.YES
    some = every.take((every.flops > 0) & (every.bits > 0) & s.rows[every.row] & on_units & ~others[every.row])
    time = trace.dur_ns[some.row].astype(np.float64)
    needs = _needs(trace, some)
    tiles, fill, tile_use = _tiles(trace, some)
    loads = _loaded_bytes(trace, some)
    is_odd = (loads < ALIGNED_BYTES) & (time > USUAL * needs) & (time >= SHORT_NS)
    unaligned = np.where(is_odd, np.where(some.bits == 16, some.unaligned(8), some.unaligned(4)), 0)
    most = np.where(unaligned > 0, time - needs, np.minimum(time * (1 - fill), time - needs))
    found = Slow(some, needs, unaligned, tiles, fill, tile_use, most)
    return found.take((time > FAR * needs) & ((unaligned > 0) | (fill <= MAX_FILL)))


def _needs(trace: TraceTable, some: Products) -> Float64:
    """Returns the time of each product at peak rates; NaN = unknown. Single precision on matrix units may be TF32."""
    half, bandwidth = peaks_of(trace, some.row, "fp16")
    has_tf32 = np.array([*("tf32" in each.precisions for each in trace.devices), False])[trace.device[some.row]]
    single = np.where(has_tf32, peaks_of(trace, some.row, "tf32")[0], peaks_of(trace, some.row, "fp32")[0])
    peak = np.where(some.bits == 16, half, single)
    found: Float64 = np.maximum(some.flops / peak, some.numbers * (some.bits // 8) / bandwidth)
    return found


def _loaded_bytes(trace: TraceTable, some: Products) -> Float64:
    """Returns the bytes that a thread loads at once, by the name of each kernel; NaN = unknown."""
    groups = group(trace.name[some.row], trace.device[some.row])
    found = np.full(len(groups), np.nan)
    for i, row in enumerate(some.row[groups.first].tolist()):
        pattern = trace.devices[trace.device[row]].matrix_load if trace.device[row] != MISSING else ""
        match = re.search(pattern, trace.strings[int(trace.name[row])]) if pattern else None
        found[i] = int(match[1]) if match else np.nan
    loaded: Float64 = found[groups.of] * (some.bits // 8)
    return loaded


def _tiles(trace: TraceTable, some: Products) -> tuple[Int64, Float64, Float64]:
    """Returns the tiles of each product, the share of multiprocessor time that computes output, and the share of the
    tiles that is output (NaN = unknown).

    Each block of a kernel computes one tile, whose size is in the kernel's name. A wave is one block per
    multiprocessor. Kernels that split the depth have more blocks than tiles; persistent kernels have fewer.
    """
    device = trace.device[some.row]
    grid, _ = kernel_args(trace, some.row)
    columns = (trace.name[some.row], grid, device, some.batch, some.rows, some.columns)
    groups = group(*columns)
    found = [_fill(trace, *(int(column[at]) for column in columns)) for at in groups.first.tolist()]
    table = np.array(found, np.float64).reshape(-1, 3)[groups.of]
    return table[:, 0].astype(np.int64), table[:, 1], table[:, 2]


def _fill(
    trace: TraceTable, name: int, grid: int, device: int, batch: int, rows: int, columns: int
) -> tuple[int, float, float]:
    info = trace.devices[device] if device != MISSING else None
    if info is None or not info.sm_count or info.sm_count < 1:
        return 0, np.nan, np.nan
    tile = re.search(info.matrix_tile, trace.strings[name]) if info.matrix_tile else None
    if tile is None:
        return 0, np.nan, np.nan
    high, wide = (int(size) for size in tile.groups())
    if not high or not wide:
        return 0, np.nan, np.nan
    # Names of libraries do not show which side of a tile is for the rows.
    tiles = batch * min(-(-rows // high) * -(-columns // wide), -(-rows // wide) * -(-columns // high))
    blocks = max(tiles, _blocks(trace.strings[grid] if grid != MISSING else ""))
    waves = -(-blocks // info.sm_count)
    useful = batch * rows * columns / (tiles * high * wide)
    return tiles, min(useful * blocks / (waves * info.sm_count), 1.0), useful


def _blocks(grid: str) -> int:
    """Returns the number of blocks of a recorded grid; 0 = unknown."""
    try:
        sizes = json.loads(grid) if grid else []
    except ValueError:
        return 0
    if (
        not isinstance(sizes, list)
        or not 0 < len(sizes) < 4
        or not all(type(n) is int and 0 < n < 1 << 31 for n in sizes)
    ):
        return 0
    return int(np.prod(np.array(sizes, np.float64)))


_REASONS = {
    "small": "The others are idle.",
    "tile": "The output fills only a part of its tiles.",
    "waves": "The last round takes as long as the others, but fills fewer.",
}


def _look(s: Scene) -> Detection | None:
    trace, slow = s.trace, slow_products(s)
    row = slow.product.row
    time = trace.dur_ns[row]
    total = int(time.sum())
    if not total or total < MIN_SHARE * int(trace.dur_ns[s.kernels].sum()):
        return None
    at, name, shape = _largest(s, slow)
    info = trace.devices[int(trace.device[row[at]])]
    word = f"{info.multiprocessor or 'multiprocessor'}s"
    unaligned, tiles, count = int(slow.unaligned[at]), int(slow.tiles[at]), info.sm_count or 0
    figures: dict[str, Scalar] = {
        "slow_product_ns": s.per_step(total),
        "slow_product_peak": float(slow.needs_ns.sum()) / total,
        "slow_operator": name,
        "slow_shape": shape,
    }
    if unaligned:
        step = ALIGNED_BYTES * 8 // int(slow.product.bits[at])
        case, reason = "alignment", f"{{unaligned_size}} is not a multiple of {step}."
        why = "The name of the kernel shows that it loads less than 16 bytes at once, because rows are not aligned."
        figures |= {"unaligned_size": unaligned}
    else:
        fill, tile_use = float(slow.fill[at]), float(slow.tile_use[at])
        case = "small" if tiles < count else "tile" if tile_use * tile_use < fill else "waves"
        reason = f"its {{product_tiles}} {plural(tiles, 'tile uses', 'tiles use')} {{tile_fill}} of {count} {word}."
        why = f"Each of the {word} computes one tile of the output at a time. {_REASONS[case]}"
        figures |= {"product_tiles": tiles, "tile_fill": float(slow.fill[at])}
    notice = s.notice(
        RULE,
        text="Matmuls take {slow_product_ns} per step at {slow_product_peak} of the peak, mostly {slow_operator} with "
        f"{{slow_shape}}: {reason}",
        figures=METRICS.measured(**figures),
        case=case,
        evidence=Link("operators", {"group": "operators_by_shape", "where": f"name:{name}"}, "Show its shapes"),
        why=why,
        confidence="medium",
    )
    sure = np.where(slow.unaligned > 0, time - USUAL * slow.needs_ns, slow.most_ns / 2)
    least = np.where(time < SHORT_NS, 0, np.clip(sure, 0, slow.most_ns))
    bounds = Bounds(*(Change(row=row, less_ns=less.astype(np.int64)) for less in (least, slow.most_ns)))
    return Detection(notice, bounds, s.by_length(row))


def _largest(s: Scene, slow: Slow) -> tuple[int, str, str]:
    """Returns the place, operator and shapes of the product with the largest saving over all its calls."""
    trace = s.trace
    operator = trace.operator[slow.product.row]
    texts = arguments(trace).shape_of(operator)
    groups = group(trace.name[operator], texts, slow.unaligned, slow.tiles)
    saving = groups.sum_real(slow.most_ns)

    def words(at: int) -> tuple[str, str, int]:
        return trace.strings[int(trace.name[operator[at]])], trace.strings[int(texts[at])], at

    largest: Sequence[int] = groups.first[saving == saving.max()].tolist()
    name, shape, at = min(map(words, largest))  # independent of the order in the file
    return at, name, shape


RULE = Rule(
    __name__,
    title="Slow matmuls",
    look=_look,
    order=295,
    detects="Matmuls are far from the peak, and their shapes are the reason.",
    threshold=f"Such matmuls take at least {percent(MIN_SHARE)} of the kernel time.",
    saving="For tiles, the upper bound is the time in which multiprocessors compute no output. The lower bound is half of "
    "the upper bound, and 0 for kernels below 10 us. Unaligned dimensions: the bounds of `matrix_units`.",
    needs="Input shapes and types, and a device with known peaks.",
    notes="""
        A matmul counts if it uses matrix units and takes at least twice its time at peak rates. The time at peak rates
        is that of the operations or that of the bytes, whichever is longer. The peaks are those of 16 bits or TF32.

        One block of a kernel computes one tile of the output. The multiprocessors compute the tiles in
        rounds (waves). The rule counts them if the kernel's name contains the size of a tile. With
        fewer tiles than multiprocessors, the reason is `small`. Otherwise it is `tile` (the output does not fill its
        tiles) or `waves` (the last round is partly filled), whichever loses more. The use of the multiprocessors is
        then at most 75 %. Stream-K kernels do not count.

        The reason is `alignment` if the kernel loads less than 16 bytes at once: `align1` to `align4` in names of
        CUTLASS. The matmul must also take three times its time at peak rates.

        Matmuls in findings of `matrix_alignment`, `matrix_units`, `tf32_off` and `unfused_attention` do not count.
        Replayed CUDA graphs do not count either, because the trace does not contain their operators.
    """,
    cases=("alignment", "small", "tile", "waves"),
    limits=(Limit.GPU,),
)
