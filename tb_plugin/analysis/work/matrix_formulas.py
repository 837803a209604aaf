"""Work of matrix products, convolutions, attention and recurrent networks.

The operations are those of PyTorch's FlopCounterMode, except that a bias counts, that a causal mask leaves out pairs,
and that the gradient of the weight of a grouped convolution has the operations of the forward pass.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tb_plugin.analysis.work.inputs import Dims, Formula, Inputs, Tensor, Work, number_format, sum_bytes

# Numbers of PyTorch's c10::ScalarType, with the bytes of an element.
_SIZE_OF_SCALAR_TYPE = {5: 2, 6: 4, 7: 8, 15: 2}


class ProductSizes(NamedTuple):
    """Sizes of ``batch`` products of a (rows x depth) matrix and a (depth x columns) matrix."""

    batch: int
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.rows * self.columns * self.depth

    @property
    def outputs(self) -> int:
        return self.batch * self.rows * self.columns

    @property
    def numbers(self) -> int:
        """Elements of both inputs and of the output."""
        return self.batch * self.depth * (self.rows + self.columns) + self.outputs


def product_sizes(left: Dims, right: Dims) -> ProductSizes | None:
    """Returns the sizes of a product; None if the shapes do not fit together."""
    if len(left) < 2 or len(left) != len(right) or left[-1] != right[-2] or left[:-2] != right[:-2]:
        return None
    return ProductSizes(math.prod(left[:-2]), left[-2], right[-1], left[-1])


def product(first: int, bias: int | None = None, out_bytes: int | None = None) -> Formula:
    """Returns the formula of a product of the inputs ``first`` and ``first + 1``, plus the input ``bias``."""

    def formula(inputs: Inputs) -> Work | None:
        left, right = inputs.tensor(first), inputs.tensor(first + 1)
        sizes = product_sizes(left.dims, right.dims) if left is not None and right is not None else None
        if left is None or right is None or sizes is None:
            return None
        added = None if bias is None else inputs.tensor(bias)
        flops = sizes.flops + (sizes.outputs if added is not None else 0)
        moved = sum_bytes(left, right, added) + sizes.outputs * (out_bytes or left.size)
        return Work(flops, moved, number_format(left), True)

    return formula


def linear(bias: int | None = None) -> Formula:
    """Returns the formula of ``x @ weight.T + bias``; x is input 0, weight is input 1."""

    def formula(inputs: Inputs) -> Work | None:
        x, weight = inputs.tensor(0), inputs.tensor(1)
        if x is None or weight is None or len(weight.dims) != 2 or not x.dims or x.dims[-1] != weight.dims[1]:
            return None
        outputs = math.prod(x.dims[:-1]) * weight.dims[0]
        added = None if bias is None else inputs.tensor(bias)
        flops = 2.0 * outputs * x.dims[-1] + (outputs if added is not None else 0)
        return Work(flops, sum_bytes(x, weight, added) + outputs * x.size, number_format(x), True)

    return formula


def scaled_product(scales: tuple[int, int], bias: int, out_type: int) -> Formula:
    """Returns the formula of a product of 8-bit numbers. An unknown type of the output counts 2 bytes."""

    def formula(inputs: Inputs) -> Work | None:
        value = inputs.value(out_type)
        out_bytes = _SIZE_OF_SCALAR_TYPE.get(value, 2) if type(value) is int else 2
        found = product(0, bias, out_bytes)(inputs)
        return found and found._replace(bytes=found.bytes + sum_bytes(*(inputs.tensor(at) for at in scales)))

    return formula


def grouped_product(scales: tuple[int, ...] = (), out_bytes: int | None = None) -> Formula:
    """Returns the formula of products of groups (``_grouped_mm``). The groups together fill the split dimension."""

    def formula(inputs: Inputs) -> Work | None:
        left, right = inputs.tensor(0), inputs.tensor(1)
        offsets = inputs.tensor(4 if scales else 2)
        if left is None or right is None or {len(left.dims), len(right.dims)} - {2, 3}:
            return None
        if left.dims[-1] != right.dims[-2]:
            return None
        groups = {each.dims[0] for each in (left, right) if len(each.dims) == 3}
        is_depth_split = not groups
        if is_depth_split and offsets is not None and len(offsets.dims) == 1:
            groups = {offsets.dims[0]}
        if len(groups) != 1:
            return None
        both = len(left.dims) == len(right.dims) == 3
        each = left.dims[-2] * right.dims[-1]
        outputs = each * (groups.pop() if both or is_depth_split else 1)
        flops = 2.0 * left.dims[-1] * (outputs if both else each)
        moved = sum_bytes(left, right, *(inputs.tensor(at) for at in scales)) + outputs * (out_bytes or left.size)
        return Work(flops, moved, number_format(left), True)

    return formula


def packed_int4(inputs: Inputs) -> Work | None:
    """Returns the work of ``_weight_int4pack_mm``. The weight has 8 columns of the output per row."""
    x, weight, scales = inputs.tensor(0), inputs.tensor(1), inputs.tensor(3)
    if x is None or weight is None or len(x.dims) != 2 or len(weight.dims) != 4:
        return None
    outputs = x.dims[0] * weight.dims[0] * 8
    return Work(
        2.0 * outputs * x.dims[1], sum_bytes(x, weight, scales) + outputs * x.size, number_format(x), True
    )  # fmt: skip


def matrix_vector(first: int = 0, bias: int | None = None) -> Formula:
    def formula(inputs: Inputs) -> Work | None:
        matrix, vector = inputs.tensor(first), inputs.tensor(first + 1)
        if matrix is None or vector is None or len(matrix.dims) != 2 or vector.dims != matrix.dims[1:]:
            return None
        added = None if bias is None else inputs.tensor(bias)
        rows = matrix.dims[0]
        flops = 2.0 * matrix.elements + (rows if added is not None else 0)
        return Work(flops, sum_bytes(matrix, vector, added) + rows * matrix.size, number_format(matrix), True)

    return formula


def dot(inputs: Inputs) -> Work | None:
    left, right = inputs.tensor(0), inputs.tensor(1)
    if left is None or right is None or left.dims != right.dims:
        return None
    return Work(2.0 * left.elements, sum_bytes(left, right) + left.size, number_format(left), True)


# ---------------------------------------------------------------------------------------------- convolutions


def window_counts(
    image: Dims, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], is_ceil: bool = False
) -> list[int] | None:
    """Returns how many windows fit along each spatial axis of an image; None if the numbers do not fit together."""
    spatial = len(kernel)
    stride, padding, dilation = (each * spatial if len(each) == 1 else each for each in (stride, padding, dilation))
    if spatial < 1 or len(image) < spatial or any(len(each) != spatial for each in (stride, padding, dilation)):
        return None
    out = []
    for size, wide, step, pad, apart in zip(image[-spatial:], kernel, stride, padding, dilation, strict=True):
        room = size + 2 * pad - apart * (wide - 1) - 1
        if step <= 0 or room < 0:
            return None
        count = (room + (step - 1 if is_ceil else 0)) // step + 1
        # A window of a pooling must not start in the padding at the end.
        out.append(count - 1 if is_ceil and (count - 1) * step >= size + pad else count)
    return out


def convolution(padding: int, stride: int, dilation: int, bias: int | None = None, added: int | None = None) -> Formula:
    """Returns the formula of a convolution. ``added``: position of a tensor that is added to the output."""

    def formula(inputs: Inputs) -> Work | None:
        image, weight = inputs.tensor(0), inputs.tensor(1)
        steps, pads, apart = (inputs.ints(at) or [] for at in (stride, padding, dilation))
        if image is None or weight is None or len(image.dims) != len(weight.dims):
            return None
        out = window_counts(image.dims, list(weight.dims[2:]), steps, pads, apart)
        if out is None:
            return None
        made = math.prod((image.dims[0], weight.dims[0], *out))
        more = [inputs.tensor(at) for at in (bias, added) if at is not None]
        flops = 2.0 * made * math.prod(weight.dims[1:]) + made * sum(each is not None for each in more)
        return Work(flops, sum_bytes(image, weight, *more) + made * image.size, number_format(image), True)

    return formula


def transposed_convolution(
    padding: int, extra: int, stride: int, dilation: int, groups: int, bias: int | None = None
) -> Formula:
    """Returns the formula of a transposed convolution. ``extra``: position of the padding of the output."""

    def formula(inputs: Inputs) -> Work | None:
        image, weight, count = inputs.tensor(0), inputs.tensor(1), inputs.value(groups)
        if image is None or weight is None or type(count) is not int:
            return None
        numbers = [inputs.ints(at) or [] for at in (stride, padding, dilation, extra)]
        spatial = len(weight.dims) - 2
        if spatial < 1 or len(image.dims) != spatial + 2 or any(len(each) != spatial for each in numbers):
            return None
        sizes = zip(image.dims[2:], weight.dims[2:], *numbers, strict=True)
        out = [(n - 1) * step - 2 * pad + wide * (kernel - 1) + more + 1 for n, kernel, step, pad, wide, more in sizes]
        made = math.prod((image.dims[0], weight.dims[1] * count, *out))
        added = None if bias is None else inputs.tensor(bias)
        flops = 2.0 * image.elements * math.prod(weight.dims[1:]) + (made if added is not None else 0)
        moved = sum_bytes(image, weight, added) + made * image.size
        return Work(flops, moved, number_format(image), True) if made >= 0 else None

    return formula


def transposed_operator(inputs: Inputs) -> Work | None:
    """Returns the work of a transposed ``aten::_convolution``. Others have formulas by library."""
    return transposed_convolution(4, 7, 3, 5, 8, bias=2)(inputs) if inputs.value(6) is True else None


def convolution_backward(inputs: Inputs) -> Work | None:
    """Returns the work of the gradients that ``output_mask`` selects: of the input, the weight and the bias."""
    grad, image, weight, mask = inputs.tensor(0), inputs.tensor(1), inputs.tensor(2), inputs.value(10)
    is_transposed = inputs.value(7)
    if grad is None or image is None or weight is None or not isinstance(mask, list) or len(mask) != 3:
        return None
    if not isinstance(is_transposed, bool) or len(weight.dims) < 3:
        return None
    # Each weight is used once per position of the smaller side of the convolution.
    each = 2.0 * (image.elements if is_transposed else grad.elements) * math.prod(weight.dims[1:])
    flops, moved = 0.0, float(grad.bytes)
    if mask[0]:
        flops, moved = flops + each, moved + weight.bytes + image.bytes
    if mask[1]:
        flops, moved = flops + each, moved + image.bytes + weight.bytes
    if mask[2]:
        flops += grad.elements
    return Work(flops, moved, number_format(image), True)


# ---------------------------------------------------------------------------------------------- attention


class Attention(NamedTuple):
    """Positions of the inputs of an attention. K and V follow Q."""

    query: int
    causal: int
    """Flag of a causal mask; or, as a number, 0 = no mask, other numbers = causal."""
    heads: int
    """Axis of the heads in Q of 4 dimensions."""
    lengths: int | None = None
    """Starts of the sequences of Q, then of K, of packed sequences; the longest lengths follow."""
    longest: int | None = None
    """Longest length of Q, then of K, if they do not follow the starts."""
    window: int | None = None
    """Two numbers of a sliding window; -1 = no limit."""


def attention(at: Attention, is_backward: bool = False) -> Formula:
    def formula(inputs: Inputs) -> Work | None:
        q, k, v = (inputs.tensor(at.query + i) for i in range(3))
        if q is None or k is None or v is None or not len(q.dims) == len(k.dims) == len(v.dims):
            return None
        if at.window is not None and any(inputs.value(at.window + i) not in (None, -1) for i in (0, 1)):
            return None
        sizes = _sequences(inputs, at, q, k)
        if sizes is None:
            return None
        count, heads, queries, keys = sizes
        pairs = _pairs(queries, keys, inputs.value(at.causal))
        if pairs is None:
            return None
        pairs *= count * heads
        width, value_width = q.dims[-1], v.dims[-1]
        out = q.elements // max(width, 1) * value_width * q.size
        if is_backward:
            # Scores once more, then the gradients of V, of the scores, of Q and of K.
            flops = 2.0 * pairs * (3 * width + 2 * value_width)
            return Work(flops, 2 * sum_bytes(q, k, v) + 2 * out, number_format(q), True)
        return Work(2.0 * pairs * (width + value_width), sum_bytes(q, k, v) + out, number_format(q), True)

    return formula


def _sequences(inputs: Inputs, at: Attention, q: Tensor, k: Tensor) -> tuple[int, int, int, int] | None:
    """Returns the number of sequences, the heads of Q, and the lengths of Q and K; None if the lengths differ.

    The lengths of packed sequences are not recorded. They are known if there is one sequence, or if all are as long
    as the longest one.
    """
    starts = None if at.lengths is None else inputs.tensor(at.lengths)
    if starts is None:
        if len(q.dims) != 4:
            return None
        times = 3 - at.heads
        return q.dims[0], q.dims[at.heads], q.dims[times], k.dims[times]
    if len(starts.dims) != 1 or starts.dims[0] < 2 or at.lengths is None:
        return None
    count = starts.dims[0] - 1
    lengths = []
    for i, tensor in enumerate((q, k)):
        total = math.prod(tensor.dims[:-2])  # (tokens, heads, width), or a batch of 1 before it
        longest = inputs.value((at.lengths + 2 if at.longest is None else at.longest) + i)
        if count > 1 and (type(longest) is not int or total != count * longest):
            return None
        lengths.append(total // count)
    return count, q.dims[-2], lengths[0], lengths[1]


def _pairs(queries: int, keys: int, is_causal: object) -> float | None:
    """Returns how many pairs of query and key an attention computes. A causal mask must be square."""
    if is_causal is False or (type(is_causal) is int and is_causal == 0):
        return float(queries * keys)
    if not isinstance(is_causal, bool | int) or queries != keys:
        return None
    return queries * (queries + 1) / 2


# ---------------------------------------------------------------------------------------------- recurrent networks


def recurrent(inputs: Inputs) -> Work | None:
    """Returns the work of ``_cudnn_rnn``: each weight is used once per sequence and time step."""
    x, weights = inputs.tensor(0), inputs.tensors(1)
    width, is_bidirectional = inputs.value(7), inputs.value(13)
    if x is None or len(x.dims) < 2 or weights is None or type(width) is not int or type(is_bidirectional) is not bool:
        return None
    positions = math.prod(x.dims[:-1])
    matrices = sum(each.elements for each in weights if len(each.dims) == 2)
    out = positions * max(width, 0) * (2 if is_bidirectional else 1) * x.size
    return Work(2.0 * positions * matrices, sum_bytes(x, *weights) + out, number_format(x), True)
