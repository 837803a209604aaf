"""Short names of kernels, as the page shows them."""

# One list tests this and frontend/src/lib/names.ts.

from __future__ import annotations

import re
from functools import lru_cache

_CLOSE = {"<": ">", "(": ")"}
# Generic kernels: their template arguments name the work.
_WRAPPERS = (
    (re.compile(r"(^|_)elementwise_kernel(_\w+)?\Z", re.ASCII), "elementwise"),
    (re.compile(r"^reduce_kernel\Z"), "reduce"),
    (re.compile(r"multi_tensor_apply_kernel\Z"), "multi_tensor"),
    (re.compile(r"^(kernel|device_kernel|Kernel2?)\Z"), ""),
)
_FUNCTORS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"CUDAFunctor(?:OnSelf|OnOther)?_(\w+)",
        r"launch_(\w+)",
        r"(\w+?)(?:Functor|_functor|CUDAKernelImpl|_kernel_cuda|_kernel_impl|_cuda_kernel|_kernel)",
        r"(Mean|Norm\w*|Arg\w+|Welford|Min|Max)Ops",
    )
)
_DULL = re.compile(r"([AB]?Unary|Binary|BUnary|gpu|Reduce|multi_tensor_apply|(\w+_)?(elementwise|reduce)|.)", re.ASCII)
_TILE = re.compile(r"(?:MT|tilesize|gemm_?|_)(\d{2,3})x(\d{2,3})(?=\D|\Z)", re.ASCII)
_FORMATS = (
    (re.compile(r"(?:^|_)bf16|bf16_|_BB?S?_BH?_|_BBS_|_BSS_|_B_HA"), "bf16"),
    (re.compile(r"e4m3|e5m2|fp8|_F8", re.IGNORECASE), "fp8"),
    (re.compile(r"(?:^|_)f16|fp16|h\d*gemm|_HHS_|_HSS_|_H_", re.ASCII), "f16"),
    (re.compile(r"tf32"), "tf32"),
    (re.compile(r"(?:^|_)f32|sgemm|scudnn|_SB_|_S_B_"), "f32"),
    (re.compile(r"dgemm|(?:^|_)f64|_DB_"), "f64"),
    (re.compile(r"_i8|_s8|int8"), "int8"),
)


@lru_cache(maxsize=1 << 13)
def kernel_label(name: str) -> str:
    """Returns the short name of a kernel: ``elementwise [add]``, ``gemm 128x64 bf16``. Other names stay as they are."""
    text = name.strip()
    if re.search(r"\.py\([0-9]+\): |^enumerate\(", text):
        return text
    if not re.search(r"^void |<|\w\(", text, re.ASCII):
        return _matrix_product(text) or text
    text = re.sub(r"^(?:void|int|float|unsigned int)\s+", "", text).replace("(anonymous namespace)", "")
    pieces = [piece for piece in _without_groups(text).strip().split("::") if piece]
    last = (pieces[-1].strip() if pieces else "") or text
    wrapper = next((word for pattern, word in _WRAPPERS if pattern.search(last)), None)
    if wrapper is None:
        plain = re.sub(r"^vectorized_(?=.*_kernel\Z)", "", last).removesuffix("_kernel")
        return _matrix_product(last) or plain or last
    inner = _functor(text)
    if not inner or inner == last:
        return wrapper or (pieces[-2].rpartition(" ")[2] if len(pieces) > 1 else last)
    return f"{wrapper} [{inner[0].lower()}{inner[1:]}]" if wrapper else _matrix_product(inner) or inner


def _without_groups(text: str) -> str:
    """Returns a C++ name without ``<...>`` and ``(...)``, also if the name is cut."""
    expected: list[str] = []
    kept = []
    for i, char in enumerate(text):
        # ``->`` and ``operator<`` are no brackets.
        symbol = char in "<>" and (text[i - 1 : i] == "-" or text[max(0, i - 8) : i] == "operator")
        if char in _CLOSE and not (char == "<" and symbol):
            expected.append(_CLOSE[char])
        elif not expected:
            kept.append(char)
        elif char == expected[-1] and not symbol:
            expected.pop()
    return "".join(kept)


def _matrix_product(name: str) -> str | None:
    found = re.search(r"fprop|dgrad|wgrad|winograd", name)
    is_convolution = found is not None or "scudnn_" in name
    if not is_convolution and not re.search(r"gemm|^Cijk_|^nvjet_", name):
        return None
    tile = _TILE.search(name)
    if tile is None or "convol" in name or not re.fullmatch(r"\w+", name, re.ASCII):
        return None
    number_format = next((word for pattern, word in _FORMATS if pattern.search(name)), "")
    words = ("conv" if is_convolution else "gemm", found[0] if found else "", f"{tile[1]}x{tile[2]}", number_format)
    return " ".join(filter(None, words))


def _functor(text: str) -> str | None:
    for piece in re.split(r"[<>,()]|::", text):
        for pattern in _FUNCTORS:
            found = pattern.fullmatch(piece.strip())
            if found and not _DULL.fullmatch(found[1]):
                return found[1]
    cutlass = re.search(r"cutlass\w*_\w+op_\w+|cutlass_\d\w+", text, re.ASCII)
    return cutlass and cutlass[0]
