"""Floating-point operations and bytes of an operator call.

Computed from recorded shapes, types and values.

A multiplication and an addition are two operations. Each tensor counts once in the bytes: the least traffic between
the device and its memory. An operator without a formula, or whose formula needs a value that was not recorded, has
no work (None). Nothing is guessed. Matrix products, convolutions and attention have the operations of PyTorch's
FlopCounterMode, except that a bias counts, that a causal mask leaves out pairs, and that the gradient of the weight of
a grouped convolution has the operations of the forward pass.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tb_plugin.analysis.dtypes import element_bytes

Dims = tuple[int, ...]
# Longer texts are not parsed: lists of tensors may be very long.
_MAX_CHARS = 65_536


class Work(NamedTuple):
    flops: float
    bytes: float
    format: str
    """Number format of the inputs: "fp64", "fp32", "fp16" (also bfloat16), "fp8" or "int8"."""
    is_matrix: bool
    """Whether matrix units can do the operations."""


class Inputs:
    """Recorded inputs of a call, by position. Tensors without a recorded shape or type are None."""

    def __init__(self, shapes: str, types: str, values: str) -> None:
        self._shapes, self._types, self._values = (_parsed(text) for text in (shapes, types, values))

    def tensor(self, at: int) -> Tensor | None:
        if at >= min(len(self._shapes), len(self._types)):
            return None
        return _tensor(self._shapes[at], self._types[at])

    def tensors(self, at: int) -> list[Tensor] | None:
        """Returns the tensors of a list, None if a shape is not recorded."""
        if at >= len(self._shapes) or at >= len(self._types) or not isinstance(self._shapes[at], list):
            return None
        shapes, kind = self._shapes[at], self._types[at]
        types = kind if isinstance(kind, list) else [kind] * len(shapes)
        found = [_tensor(shape, each) for shape, each in zip(shapes, types, strict=False)]
        return None if not found or None in found else [each for each in found if each is not None]

    @property
    def has_values(self) -> bool:
        return bool(self._values)

    def value(self, at: int) -> Any:
        """Returns a recorded number, boolean or list of numbers; None = not recorded."""
        if at >= len(self._values):
            return None
        value = self._values[at]
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text in ("True", "False"):
            return text == "True"
        try:
            return json.loads(text.replace("True", "true").replace("False", "false")) if text else None
        except ValueError:
            return None

    def ints(self, at: int) -> list[int] | None:
        value = self.value(at)
        if isinstance(value, list) and all(type(each) is int for each in value):
            return value
        return None


class Tensor(NamedTuple):
    dims: Dims
    dtype: str
    size: int
    """Bytes per element."""

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        return self.elements * self.size


Formula = Callable[[Inputs], Work | None]


def work_of(name: str, shapes: str, types: str, values: str) -> Work | None:
    """Returns the work of a call. The arguments are recorded texts (JSON); "" = not recorded."""
    formula = _FORMULAS.get(name.removeprefix("aten::")) if name.startswith("aten::") else None
    if formula is None:
        return None
    try:
        return formula(Inputs(shapes, types, values))
    except (OverflowError, RecursionError):  # absurd shapes, or thousands of brackets
        return None


def has_formula(name: str) -> bool:
    return name.startswith("aten::") and name.removeprefix("aten::") in _FORMULAS


def _parsed(text: str) -> list[Any]:
    try:
        found = json.loads(text) if text and len(text) <= _MAX_CHARS else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _tensor(dims: Any, dtype: Any) -> Tensor | None:
    if not isinstance(dims, list) or not isinstance(dtype, str) or not all(type(n) is int and n >= 0 for n in dims):
        return None
    # Complex numbers take other operations, and elements of 4 bits are packed.
    size = None if "complex" in dtype.lower() or "float4" in dtype.lower() else element_bytes(dtype)
    return None if size is None else Tensor(tuple(dims), dtype, size)


def _format(tensor: Tensor) -> str:
    text = tensor.dtype.lower()
    if "float8" in text:
        return "fp8"
    if not any(word in text for word in ("float", "double", "half")):
        return "int8" if tensor.size == 1 else "fp32"
    return {2: "fp16", 4: "fp32", 8: "fp64"}.get(tensor.size, "fp32")


def _sum_bytes(*tensors: Tensor | None) -> int:
    return sum(tensor.bytes for tensor in tensors if tensor is not None)


# ---------------------------------------------------------------------------------------------- matrix products


def _product(first: int, bias: int | None = None, out_bytes: int | None = None) -> Formula:
    """Returns the formula of a product of the inputs ``first`` and ``first + 1``, plus the input ``bias``."""

    def formula(inputs: Inputs) -> Work | None:
        left, right = inputs.tensor(first), inputs.tensor(first + 1)
        if left is None or right is None or len(left.dims) < 2 or len(right.dims) != len(left.dims):
            return None
        if left.dims[-1] != right.dims[-2] or left.dims[:-2] != right.dims[:-2]:
            return None
        out = math.prod(left.dims[:-1]) * right.dims[-1]
        flops = 2.0 * out * left.dims[-1]
        added = None if bias is None else inputs.tensor(bias)
        if added is not None:
            flops += out
        moved = _sum_bytes(left, right, added) + out * (out_bytes or left.size)
        return Work(flops, moved, _format(left), True)

    return formula


def _matrix_vector(inputs: Inputs) -> Work | None:
    matrix, vector = inputs.tensor(0), inputs.tensor(1)
    if matrix is None or vector is None or len(matrix.dims) != 2 or vector.dims != matrix.dims[1:]:
        return None
    return Work(2.0 * matrix.elements, _sum_bytes(matrix, vector) + matrix.dims[0] * matrix.size, _format(matrix), True)


# ---------------------------------------------------------------------------------------------- convolutions


def _convolved(image: Dims, weight: Dims, stride: list[int], padding: list[int], dilation: list[int]) -> Dims | None:
    """Returns the shape of the output of a convolution."""
    spatial = len(weight) - 2
    stride, padding, dilation = (each * spatial if len(each) == 1 else each for each in (stride, padding, dilation))
    if spatial < 1 or len(image) != len(weight) or any(len(each) != spatial for each in (stride, padding, dilation)):
        return None
    out = [
        (size + 2 * pad - wide * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, wide in zip(image[2:], weight[2:], stride, padding, dilation, strict=True)
        if step > 0
    ]
    return (image[0], weight[0], *out) if len(out) == spatial and all(each > 0 for each in out) else None


def _convolution(padding: int, stride: int, dilation: int, bias: int | None = None) -> Formula:
    def formula(inputs: Inputs) -> Work | None:
        image, weight = inputs.tensor(0), inputs.tensor(1)
        numbers = [inputs.ints(at) for at in (stride, padding, dilation)]
        if image is None or weight is None or None in numbers:
            return None
        out = _convolved(image.dims, weight.dims, *(each or [] for each in numbers))
        if out is None:
            return None
        made = math.prod(out)
        added = None if bias is None else inputs.tensor(bias)
        flops = 2.0 * made * math.prod(weight.dims[1:]) + (made if added else 0)
        return Work(flops, _sum_bytes(image, weight, added) + made * image.size, _format(image), True)

    return formula


def _transposed_convolution(inputs: Inputs) -> Work | None:
    """Returns the work of a transposed ``aten::_convolution``. Others have formulas by library."""
    image, weight, bias, groups = inputs.tensor(0), inputs.tensor(1), inputs.tensor(2), inputs.value(8)
    stride, padding, dilation, extra = (inputs.ints(at) for at in (3, 4, 5, 7))
    if image is None or weight is None or inputs.value(6) is not True or type(groups) is not int:
        return None
    numbers = [each or [] for each in (stride, padding, dilation, extra)]
    spatial = len(weight.dims) - 2
    if spatial < 1 or len(image.dims) != spatial + 2 or any(len(each) != spatial for each in numbers):
        return None
    sizes = zip(image.dims[2:], weight.dims[2:], *numbers, strict=True)
    out = [(n - 1) * step - 2 * pad + wide * (kernel - 1) + more + 1 for n, kernel, step, pad, wide, more in sizes]
    made = math.prod((image.dims[0], weight.dims[1] * groups, *out))
    flops = 2.0 * image.elements * math.prod(weight.dims[1:]) + (made if bias else 0)
    return Work(flops, _sum_bytes(image, weight, bias) + made * image.size, _format(image), True) if made >= 0 else None


def _convolution_backward(inputs: Inputs) -> Work | None:
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
    return Work(flops, moved, _format(image), True)


# ---------------------------------------------------------------------------------------------- attention


def _pairs(queries: int, keys: int, is_causal: Any) -> float | None:
    """Returns how many pairs of query and key an attention computes. A causal mask must be square."""
    if is_causal is False:
        return float(queries * keys)
    return queries * (queries + 1) / 2 if is_causal is True and queries == keys else None


def _attention(query: int, causal: int, heads: int, is_backward: bool = False) -> Formula:
    """``query``: position of Q; K and V follow. ``causal``: position of the flag. ``heads``: axis of the heads in Q."""

    def formula(inputs: Inputs) -> Work | None:
        q, k, v = (inputs.tensor(query + i) for i in range(3))
        if q is None or k is None or v is None or not len(q.dims) == len(k.dims) == len(v.dims) == 4:
            return None
        times = 3 - heads  # axis of the positions
        pairs = _pairs(q.dims[times], k.dims[times], inputs.value(causal))
        if pairs is None:
            return None
        count = q.dims[0] * q.dims[heads] * pairs
        width, value_width = q.dims[3], v.dims[3]
        out = q.elements // max(width, 1) * value_width * q.size
        if is_backward:
            # Scores once more, then the gradients of V, of the scores, of Q and of K.
            flops = 2.0 * count * (3 * width + 2 * value_width)
            return Work(flops, 2 * _sum_bytes(q, k, v) + 2 * out, _format(q), True)
        return Work(2.0 * count * (width + value_width), _sum_bytes(q, k, v) + out, _format(q), True)

    return formula


# ------------------------------------------------------------------------- elementwise, norms, reductions, copies


def _broadcast(*shapes: Dims) -> Dims | None:
    made: list[int] = []
    for axis in range(1, max(map(len, shapes), default=0) + 1):
        sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(sizes) > 1:
            return None
        made.insert(0, sizes.pop() if sizes else 1)
    return tuple(made)


def _elementwise(count: int, flops: float = 1, out_bytes: int | None = None) -> Formula:
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
        return Work(flops * made, _sum_bytes(*known) + made * size, _format(tensors[0]), False)

    return formula


def _foreach(lists: Sequence[int], written: Sequence[int], flops: float, other: int | None = None) -> Formula:
    """Returns the formula of an operator on lists of tensors.

    ``lists`` are the positions of the lists that the operator reads. It also writes those in ``written``. The input at
    ``other`` is one more list to read, or a number.
    """

    def formula(inputs: Inputs) -> Work | None:
        found = {at: inputs.tensors(at) for at in lists}
        if other is not None and (more := inputs.tensors(other)) is not None:
            found[other] = more
        sizes = {at: _sum_bytes(*tensors) for at, tensors in found.items() if tensors is not None}
        first = found[lists[0]]
        if first is None or len(sizes) < len(found):
            return None
        count = sum(tensor.elements for tensor in first)
        return Work(flops * count, sum(sizes.values()) + sum(sizes[at] for at in written), _format(first[0]), False)

    return formula


def _copy(inputs: Inputs) -> Work | None:
    to, source = inputs.tensor(0), inputs.tensor(1)
    if to is None or source is None:
        return None
    return Work(0.0, to.bytes + source.bytes, _format(to), False)


def _fill(inputs: Inputs) -> Work | None:
    to = inputs.tensor(0)
    return None if to is None else Work(0.0, to.bytes, _format(to), False)


def _cat(inputs: Inputs) -> Work | None:
    parts = inputs.tensors(0)
    return None if parts is None else Work(0.0, 2 * _sum_bytes(*parts), _format(parts[0]), False)


def _reduction(inputs: Inputs) -> Work | None:
    image = inputs.tensor(0)
    axes = inputs.ints(1) if inputs.value(1) is not None else []
    if image is None or not image.dims or axes is None or not inputs.has_values:
        return None
    left = set(range(len(image.dims))) - {axis % len(image.dims) for axis in axes} if axes else set()
    out = math.prod(image.dims[axis] for axis in left)
    return Work(float(image.elements), image.bytes + out * image.size, _format(image), False)


def _norm(parameters: Sequence[int]) -> Formula:
    """Returns the formula of a norm. ``parameters``: positions of the scale and the shift."""

    def formula(inputs: Inputs) -> Work | None:
        image = inputs.tensor(0)
        if image is None or not image.dims:
            return None
        scale = _sum_bytes(*(inputs.tensor(at) for at in parameters))
        return Work(5.0 * image.elements, 2 * image.bytes + scale, _format(image), False)

    return formula


def _softmax(inputs: Inputs) -> Work | None:
    image, is_widened = inputs.tensor(0), inputs.value(2)
    if image is None or not isinstance(is_widened, bool):
        return None
    out = image.elements * (4 if is_widened else image.size)
    return Work(5.0 * image.elements, image.bytes + out, _format(image), False)


def _dropout(inputs: Inputs) -> Work | None:
    image = inputs.tensor(0)
    return (
        None if image is None else Work(2.0 * image.elements, 2 * image.bytes + image.elements, _format(image), False)
    )


def _two_inputs(flops: float) -> Formula:
    """Returns the formula of a gradient that reads two tensors of one shape and writes one."""

    def formula(inputs: Inputs) -> Work | None:
        grad, image = inputs.tensor(0), inputs.tensor(1)
        if grad is None or image is None or grad.elements != image.elements:
            return None
        return Work(flops * image.elements, grad.bytes + 2 * image.bytes, _format(image), False)

    return formula


def _lookup(inputs: Inputs) -> Work | None:
    """Rows of a table: ``embedding(weight, indices)``."""
    table, chosen = inputs.tensor(0), inputs.tensor(1)
    if table is None or chosen is None or len(table.dims) != 2:
        return None
    return Work(0.0, 2 * chosen.elements * table.dims[1] * table.size + chosen.bytes, _format(table), False)


_UNARY = (
    "relu sigmoid tanh exp exp2 log log2 log1p sqrt rsqrt neg abs silu gelu reciprocal cos sin erf clamp clamp_min "
    "clamp_max hardtanh leaky_relu elu square sign floor ceil round mish softplus nan_to_num logical_not bitwise_not"
)
_BINARY = "add sub mul div pow maximum minimum remainder fmod atan2 rsub"
_COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor isnan isfinite isinf"
_GRADIENTS = "threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward hardtanh_backward"


def _formulas() -> dict[str, Formula]:
    found: dict[str, Formula] = {
        "mm": _product(0),
        "bmm": _product(0),
        "addmm": _product(1, bias=0),
        "baddbmm": _product(1, bias=0),
        "_scaled_mm": _product(0, out_bytes=2),
        "_int_mm": _product(0, out_bytes=4),
        "mv": _matrix_vector,
        "cudnn_convolution": _convolution(2, 3, 4),
        "miopen_convolution": _convolution(3, 4, 5, bias=2),
        "mkldnn_convolution": _convolution(3, 4, 5, bias=2),
        "_convolution": _transposed_convolution,
        "convolution_backward": _convolution_backward,
        "_flash_attention_forward": _attention(0, 8, heads=2),
        "_flash_attention_backward": _attention(1, 11, heads=2, is_backward=True),
        "_scaled_dot_product_flash_attention": _attention(0, 4, heads=1),
        "_scaled_dot_product_flash_attention_for_cpu": _attention(0, 4, heads=1),
        "_scaled_dot_product_efficient_attention": _attention(0, 6, heads=1),
        "_scaled_dot_product_cudnn_attention": _attention(0, 6, heads=1),
        "_scaled_dot_product_flash_attention_backward": _attention(1, 11, heads=1, is_backward=True),
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention(1, 7, heads=1, is_backward=True),
        "_scaled_dot_product_efficient_attention_backward": _attention(1, 11, heads=1, is_backward=True),
        "_scaled_dot_product_cudnn_attention_backward": _attention(1, 14, heads=1, is_backward=True),
        "native_layer_norm": _norm((2, 3)),
        "native_group_norm": _norm((1, 2)),
        "native_batch_norm": _norm((1, 2)),
        "cudnn_batch_norm": _norm((1, 2)),
        "miopen_batch_norm": _norm((1, 2)),
        "_softmax": _softmax,
        "_log_softmax": _softmax,
        "_softmax_backward_data": _two_inputs(4),
        "_log_softmax_backward_data": _two_inputs(4),
        "native_layer_norm_backward": _two_inputs(9),
        "native_batch_norm_backward": _two_inputs(9),
        "cudnn_batch_norm_backward": _two_inputs(9),
        "miopen_batch_norm_backward": _two_inputs(9),
        "native_dropout": _dropout,
        "addcmul": _elementwise(3, 3),
        "addcdiv": _elementwise(3, 3),
        "where": _elementwise(3, 0),
        "lerp": _elementwise(2, 3),
        "masked_fill": _elementwise(2, 0),
        "copy_": _copy,
        "fill_": _fill,
        "zero_": _fill,
        "cat": _cat,
        "embedding": _lookup,
        "sum": _reduction,
        "mean": _reduction,
        "amax": _reduction,
        "amin": _reduction,
        "prod": _reduction,
        "_fused_adam_": _foreach((0, 1, 2, 3), (0, 2, 3), 12),
        "_fused_adamw_": _foreach((0, 1, 2, 3), (0, 2, 3), 12),
        "_fused_sgd_": _foreach((0, 1, 2), (0, 2), 4),
        "_foreach_add_": _foreach((0,), (0,), 1, other=1),
        "_foreach_mul_": _foreach((0,), (0,), 1, other=1),
        "_foreach_div_": _foreach((0,), (0,), 1, other=1),
        "_foreach_sqrt": _foreach((0,), (0,), 1),
        "_foreach_addcmul_": _foreach((0, 1, 2), (0,), 3),
        "_foreach_addcdiv_": _foreach((0, 1, 2), (0,), 3),
        "_foreach_lerp_": _foreach((0, 1), (0,), 3),
        "_foreach_copy_": _foreach((0, 1), (), 0),
    }
    found |= {name: _elementwise(1) for name in _UNARY.split()}
    found |= {name: _elementwise(2) for name in _BINARY.split()}
    found |= {name: _elementwise(2, out_bytes=1) for name in _COMPARE.split()}
    found |= {name: _two_inputs(3) for name in _GRADIENTS.split()}
    in_place = {*_UNARY.split(), *_BINARY.split(), "addcmul", "addcdiv", "lerp", "masked_fill"}
    return found | {f"{name}_": found[name] for name in in_place}


_FORMULAS = _formulas()
