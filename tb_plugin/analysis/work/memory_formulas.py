"""Work of elementwise operators, norms, reductions, copies, lookups and optimizers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tb_plugin.analysis.work.inputs import Dims, Formula, Inputs, Tensor, Work, number_format, sum_bytes
from tb_plugin.analysis.work.matrix_formulas import window_counts

_INDEX_BYTES = 8


def _broadcast(*shapes: Dims) -> Dims | None:
    made: list[int] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(sizes) > 1:
            return None
        made.insert(0, sizes.pop() if sizes else 1)
    return tuple(made)


def elementwise(count: int, flops: float = 1, out_bytes: int | None = None) -> Formula:
    """Returns the formula of an operator on ``count`` inputs. The first is a tensor; the others may be numbers."""

    def formula(inputs: Inputs) -> Work | None:
        tensors = [inputs.tensor(at) for at in range(count)]
        known = [each for each in tensors if each is not None and (each.dims or each is tensors[0])]
        if tensors[0] is None:
            return None
        dims = _broadcast(*(each.dims for each in known))
        if dims is None:
            return None
        made = math.prod(dims)
        size = max(each.size for each in known) if out_bytes is None else out_bytes
        return Work(flops * made, sum_bytes(*known) + made * size, number_format(tensors[0]), False)

    return formula


def moved(read: Sequence[int], written: Sequence[int] = (), flops: float = 0, of: int = 0) -> Formula:
    """Returns the formula of an operator that reads and writes these inputs, with ``flops`` per element of ``of``.

    A position that occurs twice in a list counts twice.
    """

    def formula(inputs: Inputs) -> Work | None:
        tensors = {at: inputs.tensor(at) for at in {*read, *written, of}}
        first = tensors[of]
        if first is None or None in tensors.values():
            return None
        total = sum_bytes(*(tensors[at] for at in (*read, *written)))
        return Work(flops * first.elements, total, number_format(first), False)

    return formula


def foreach(
    lists: Sequence[int],
    written: Sequence[int],
    flops: float,
    other: int | None = None,
    optional: Sequence[int] = (),
    is_new: bool = False,
) -> Formula:
    """Returns the formula of an operator on lists of tensors.

    ``lists`` are the positions of the lists that the operator reads. It also writes those in ``written``. The input at
    ``other`` is one more list to read, or a number. The lists in ``optional`` may be empty. ``is_new``: the output is a
    new list as large as the first one.
    """

    def formula(inputs: Inputs) -> Work | None:
        found = {at: inputs.tensors(at) for at in lists}
        for at in (*optional, *(() if other is None else (other,))):
            if (more := inputs.tensors(at)) is not None:
                found[at] = more
        sizes = {at: sum_bytes(*tensors) for at, tensors in found.items() if tensors is not None}
        first = found[lists[0]]
        if first is None or len(sizes) < len(found):
            return None
        count = sum(tensor.elements for tensor in first)
        total = sum(sizes.values()) + sum(sizes.get(at, 0) for at in written) + (sizes[lists[0]] if is_new else 0)
        return Work(flops * count, total, number_format(first[0]), False)

    return formula


def foreach_fill(inputs: Inputs) -> Work | None:
    tensors = inputs.tensors(0)
    return None if tensors is None else Work(0.0, sum_bytes(*tensors), number_format(tensors[0]), False)


def cumulative(inputs: Inputs) -> Work | None:
    """Returns the work of a cumulative sum. Sums of integers have 8 bytes."""
    image = inputs.tensor(0)
    if image is None:
        return None
    size = image.size if any(word in image.dtype.lower() for word in ("float", "double", "half")) else 8
    return Work(image.elements, image.elements * (image.size + size), number_format(image), False)


def copy(inputs: Inputs) -> Work | None:
    return moved((1,), (0,))(inputs)


def fill(inputs: Inputs) -> Work | None:
    return moved((), (0,))(inputs)


def cat(inputs: Inputs) -> Work | None:
    parts = inputs.tensors(0)
    return None if parts is None else Work(0.0, 2 * sum_bytes(*parts), number_format(parts[0]), False)


# ---------------------------------------------------------------------------------------------- reductions, norms


def reduction(
    axes_at: int = 1, flops: float = 1, out_bytes: int | None = None, outputs: int = 1, is_axis: bool = False
) -> Formula:
    """Returns the formula of a reduction over the axes in the input ``axes_at``; without axes, over all.

    ``is_axis``: a single number there is an axis; otherwise it is the type of the output of another overload.
    """

    def formula(inputs: Inputs) -> Work | None:
        image, value = inputs.tensor(0), inputs.value(axes_at)
        # A boolean is an argument of another overload, which has no axes.
        axes = [] if value is None or isinstance(value, bool) else inputs.ints(axes_at)
        if is_axis and type(value) is int:
            axes = [value]
        if image is None or not image.dims or axes is None or not inputs.has_values:
            return None
        left = set(range(len(image.dims))) - {axis % len(image.dims) for axis in axes} if axes else set()
        out = math.prod(image.dims[axis] for axis in left)
        written = out * (image.size if out_bytes is None else out_bytes) * outputs
        return Work(flops * image.elements, image.bytes + written, number_format(image), False)

    return formula


def extreme(inputs: Inputs) -> Work | None:
    """Returns the work of ``max`` and ``min``: of two tensors, along an axis (with indices), or of all elements."""
    if inputs.tensor(1) is not None:
        return elementwise(2)(inputs)
    image = inputs.tensor(0)
    if image is None or type(inputs.value(1)) is not int:
        return reduction()(inputs)
    return reduction(out_bytes=image.size + _INDEX_BYTES, is_axis=True)(inputs)


def norm(parameters: Sequence[int], image_at: int = 0, flops: float = 5) -> Formula:
    """Returns the formula of a norm. ``parameters``: positions of the scale and the shift."""

    def formula(inputs: Inputs) -> Work | None:
        image = inputs.tensor(image_at)
        if image is None or not image.dims:
            return None
        scale = sum_bytes(*(inputs.tensor(at) for at in parameters))
        return Work(flops * image.elements, 2 * image.bytes + scale, number_format(image), False)

    return formula


def softmax(inputs: Inputs) -> Work | None:
    image, is_widened = inputs.tensor(0), inputs.value(2)
    if image is None or not isinstance(is_widened, bool):
        return None
    out = image.elements * (4 if is_widened else image.size)
    return Work(5.0 * image.elements, image.bytes + out, number_format(image), False)


def dropout(inputs: Inputs) -> Work | None:
    image = inputs.tensor(0)
    if image is None:
        return None
    return Work(2.0 * image.elements, 2 * image.bytes + image.elements, number_format(image), False)


def two_inputs(flops: float) -> Formula:
    """Returns the formula of a gradient that reads two tensors of one shape and writes one."""

    def formula(inputs: Inputs) -> Work | None:
        grad, image = inputs.tensor(0), inputs.tensor(1)
        if grad is None or image is None or grad.elements != image.elements:
            return None
        return Work(flops * image.elements, grad.bytes + 2 * image.bytes, number_format(image), False)

    return formula


def loss(inputs: Inputs) -> Work | None:
    """Returns the work of a loss of two tensors of one shape. Reduction 0 keeps all elements."""
    image, target, kept = inputs.tensor(0), inputs.tensor(1), inputs.value(2)
    if image is None or target is None or image.dims != target.dims or type(kept) is not int:
        return None
    out = image.elements if kept == 0 else 1
    return Work(3.0 * image.elements, sum_bytes(image, target) + out * image.size, number_format(image), False)


def class_loss(inputs: Inputs) -> Work | None:
    """Returns the work of ``nll_loss_forward``, which reads one number per row."""
    image, target = inputs.tensor(0), inputs.tensor(1)
    if image is None or target is None or not image.dims:
        return None
    return Work(target.elements, target.bytes + (target.elements + 1) * image.size, number_format(image), False)


# ---------------------------------------------------------------------------------------------- lookups, sorts


def _of_rows(table: Tensor, axis: int, chosen: int) -> int:
    """Returns the elements of ``chosen`` slices of a table."""
    return table.elements // max(table.dims[axis], 1) * chosen


def embedding(inputs: Inputs) -> Work | None:
    table, chosen = inputs.tensor(0), inputs.tensor(1)
    if table is None or chosen is None or len(table.dims) != 2:
        return None
    return Work(0.0, 2 * _of_rows(table, 0, chosen.elements) * table.size + chosen.bytes, number_format(table), False)


def embedding_backward(inputs: Inputs) -> Work | None:
    """Returns the work of ``embedding_dense_backward``, which writes the gradient of the complete table."""
    grad, chosen, rows = inputs.tensor(0), inputs.tensor(1), inputs.value(2)
    if grad is None or chosen is None or not grad.dims or type(rows) is not int or rows < 0:
        return None
    written = rows * grad.dims[-1] * grad.size
    return Work(float(grad.elements), sum_bytes(grad, chosen) + written, number_format(grad), False)


def embedding_bag(inputs: Inputs) -> Work | None:
    """Returns the work of sums of rows of a table: bags of ``indices``, which start at ``offsets``."""
    table, chosen, offsets, has_last = inputs.tensor(0), inputs.tensor(1), inputs.tensor(2), inputs.value(7)
    if table is None or chosen is None or offsets is None or len(table.dims) != 2 or type(has_last) is not bool:
        return None
    if len(chosen.dims) != 1 or len(offsets.dims) != 1:
        return None
    read = _of_rows(table, 0, chosen.elements)
    written = _of_rows(table, 0, max(offsets.elements - has_last, 0))
    total = (read + written) * table.size + sum_bytes(chosen, offsets, inputs.tensor(6))
    return Work(float(read), total, number_format(table), False)


def index_select(inputs: Inputs) -> Work | None:
    table, axis, chosen = inputs.tensor(0), inputs.value(1), inputs.tensor(2)
    if table is None or chosen is None or type(axis) is not int or not table.dims:
        return None
    out = _of_rows(table, axis % len(table.dims), chosen.elements)
    return Work(0.0, 2 * out * table.size + chosen.bytes, number_format(table), False)


def index_add(inputs: Inputs) -> Work | None:
    to, chosen, source = inputs.tensor(0), inputs.tensor(2), inputs.tensor(3)
    if to is None or chosen is None or source is None:
        return None
    return Work(float(source.elements), 3 * source.bytes + chosen.bytes, number_format(to), False)


def gather(inputs: Inputs) -> Work | None:
    table, chosen = inputs.tensor(0), inputs.tensor(2)
    if table is None or chosen is None:
        return None
    return Work(0.0, 2 * chosen.elements * table.size + chosen.bytes, number_format(table), False)


def scatter(is_sum: bool = False) -> Formula:
    """Returns the formula of a scatter in place. Only the addressed elements are read and written."""

    def formula(inputs: Inputs) -> Work | None:
        to, chosen, source = inputs.tensor(0), inputs.tensor(2), inputs.tensor(3)
        if to is None or chosen is None or (is_sum and source is None):
            return None
        times = 1 + (source is not None and bool(source.dims)) + is_sum
        total = times * chosen.elements * to.size + chosen.bytes
        return Work(float(chosen.elements * is_sum), total, number_format(to), False)

    return formula


def sort(inputs: Inputs) -> Work | None:
    """Returns the least traffic of a sort: it reads the tensor once, and writes values and indices."""
    image = inputs.tensor(0)
    if image is None:
        return None
    return Work(0.0, image.elements * (2 * image.size + _INDEX_BYTES), number_format(image), False)


def top_k(inputs: Inputs) -> Work | None:
    image, count, axis = inputs.tensor(0), inputs.value(1), inputs.value(2)
    if image is None or not image.dims or type(count) is not int or type(axis) is not int or count < 0:
        return None
    out = _of_rows(image, axis % len(image.dims), count)
    return Work(0.0, image.bytes + out * (image.size + _INDEX_BYTES), number_format(image), False)


# ---------------------------------------------------------------------------------------------- images


def pooling(has_indices: bool) -> Formula:
    """Returns the formula of a pooling of windows; ``has_indices``: ``max_pool2d_with_indices``."""

    def formula(inputs: Inputs) -> Work | None:
        image, kernel = inputs.tensor(0), inputs.ints(1)
        stride, padding = inputs.ints(2), inputs.ints(3)
        dilation, ceil = (inputs.ints(4), inputs.value(5)) if has_indices else ([1], inputs.value(4))
        if image is None or kernel is None or stride is None or padding is None or dilation is None:
            return None
        kernel = kernel * 2 if len(kernel) == 1 else kernel
        if type(ceil) is not bool or len(image.dims) < 3:
            return None
        out = window_counts(image.dims, kernel, stride or kernel, padding, dilation, ceil)
        if out is None:
            return None
        made = math.prod((*image.dims[: -len(out)], *out))
        written = made * (image.size + (_INDEX_BYTES if has_indices else 0))
        return Work(float(made * math.prod(kernel)), image.bytes + written, number_format(image), False)

    return formula


def resized(flops: float) -> Formula:
    """Returns the formula of an operator whose input 1 is the height and width of the output."""

    def formula(inputs: Inputs) -> Work | None:
        image, size = inputs.tensor(0), inputs.ints(1)
        if image is None or size is None or len(size) != 2 or len(image.dims) < 3 or min(size) < 0:
            return None
        made = math.prod((*image.dims[:-2], *size))
        work = max(made, image.elements)
        return Work(flops * work, image.bytes + made * image.size, number_format(image), False)

    return formula


def half_of_input(flops: float) -> Formula:
    """Returns the formula of a gated activation: its output is half as large as its input."""

    def formula(inputs: Inputs) -> Work | None:
        image = inputs.tensor(0)
        if image is None:
            return None
        made = image.elements // 2
        return Work(flops * made, image.bytes + made * image.size, number_format(image), False)

    return formula


# ---------------------------------------------------------------------------------------------- servers


def rotary(inputs: Inputs) -> Work | None:
    """Returns the work of ``rotary_embedding(positions, query, key, head_size, cos_sin_cache, ...)``, in place."""
    positions, query, key, table = (inputs.tensor(at) for at in (0, 1, 2, 4))
    if positions is None or query is None or table is None or len(table.dims) != 2:
        return None
    rotated = [each for each in (query, key) if each is not None]
    total = 2 * sum_bytes(*rotated) + positions.bytes + _of_rows(table, 0, positions.elements) * table.size
    return Work(3.0 * sum(each.elements for each in rotated), total, number_format(query), False)


def cache_update(inputs: Inputs) -> Work | None:
    """Returns the work of copying new keys and values into their caches: K, V, both caches, slots."""
    key, value, key_cache, value_cache, slots = (inputs.tensor(at) for at in range(5))
    if key is None or value is None or key_cache is None or value_cache is None or slots is None:
        return None
    written = key.elements * key_cache.size + value.elements * value_cache.size
    return Work(0.0, sum_bytes(key, value, slots) + written, number_format(key), False)


def quantized_rows(is_back: bool) -> Formula:
    """Returns the formula of FBGEMM's conversion of rows between single precision and 8 bits, with 8 bytes of scale."""

    def formula(inputs: Inputs) -> Work | None:
        rows = inputs.tensor(0)
        if rows is None or len(rows.dims) != 2 or rows.dims[1] < 8 * is_back:
            return None
        count, width = rows.dims
        out = count * 4 * (width - 8) if is_back else count * (-(-width // 4) * 4 + 8)
        return Work(2.0 * count * (width - 8 * is_back), rows.bytes + out, "fp32", False)

    return formula
