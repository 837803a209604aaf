"""Sizes of the elements of dtypes, for all spellings in profiles."""

from __future__ import annotations

_BYTES = {
    1: (
        "byte char bool uint8 int8 unsigned_char signed_char qint8 quint8 quint4x2 quint2x4 float8_e4m3fn float8_e5m2 "
        "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 bits8 bits1x8 bits2x4 bits4x2 "
        "uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7"
    ),
    2: "half bfloat16 float16 short int16 uint16 unsigned_short short_int short_unsigned_int bits16",
    4: "float float32 int int32 uint32 unsigned_int complexhalf complex<half> complex32 qint32",
    8: (
        "double float64 long int64 uint64 long_int long_long unsigned_long long_unsigned_int "
        "long_long_int unsigned_long_long long_long_unsigned_int "
        "complexfloat complex<float> complex64"
    ),
    16: "complexdouble complex<double> complex128",
}
BYTES_OF = {name: size for size, names in _BYTES.items() for name in names.split()}


def element_bytes(dtype: str) -> int | None:
    """Returns the size of an element of a dtype such as ``Float``, ``c10::BFloat16``, ``long int``; None = unknown."""
    name = dtype.strip().lower().removeprefix("torch.").replace("c10::", "").replace("at::", "")
    return BYTES_OF.get("_".join(name.split()))
