"""Peak rates of devices, from the vendors' data sheets."""

from __future__ import annotations

import logging
import os
import re
from functools import lru_cache
from typing import NamedTuple

import msgspec

from tb_plugin import settings

VARIABLE = settings.PEAKS.name
log = logging.getLogger("torch_trace")


class Peak(msgspec.Struct, frozen=True):
    """Peak rates of one device model, for computation without sparsity."""

    pattern: str  # searched in the device's name, any case; the first match wins
    fp32: float  # TFLOP/s outside of matrix units
    tf32: float | None
    fp16: float  # and bfloat16, if supported
    fp8: float | None
    bandwidth: float  # GB/s, which is bytes per nanosecond
    # GB/s over all links of a device in one direction; boards with their own links only (no PCIe)
    link: float | None = None

    @property
    def flops(self) -> tuple[tuple[str, float], ...]:
        """Returns the peak operations per nanosecond of each supported number format."""
        every = (("fp32", self.fp32), ("tf32", self.tf32), ("fp16", self.fp16), ("fp8", self.fp8))
        return tuple((name, tera * 1e3) for name, tera in every if tera is not None)


# The vendors' data sheets: nvidia.com/en-us/data-center/<model>, amd.com/en/products/accelerators, and Intel's overview
# of the Data Center GPU Max series. Boards for workstations and games: NVIDIA's white papers of GA102, AD102 and GB202,
# with sums in single precision, as in PyTorch. If boards of a model differ (SXM, PCIe) and the name does not show which,
# these are SXM: an upper bound. ``fp32`` of AMD is the rate of matrix cores: also an upper bound.
PEAKS = (
    Peak(r"\bV100", 15.7, None, 125, None, 900, 150),
    Peak(r"\bT4\b", 8.1, None, 65, None, 320),
    Peak(r"\bA100\b.*(?:80GB|80 GB)", 19.5, 156, 312, None, 2_039, 300),
    Peak(r"\bA100\b", 19.5, 156, 312, None, 1_555, 300),
    # An A100 with fewer links
    Peak(r"\bA800\b.*(?:80GB|80 GB)", 19.5, 156, 312, None, 2_039, 200),
    Peak(r"\bA800\b", 19.5, 156, 312, None, 1_555),
    Peak(r"\bA30\b", 10.3, 82, 165, None, 933),
    Peak(r"\bA10\b", 31.2, 62.5, 125, None, 600),
    Peak(r"\bA40\b", 37.4, 74.8, 149.7, None, 696),
    Peak(r"\bRTX A6000\b", 38.7, 77.4, 154.8, None, 768),
    Peak(r"\bRTX A5000\b(?! Laptop)", 27.8, 55.6, 111.1, None, 768),
    Peak(r"\bRTX 3090\b(?! Ti)", 35.6, 35.6, 71, None, 936),
    Peak(r"\bRTX 4090\b(?! D| Laptop)", 82.6, 82.6, 165.2, 330.3, 1_008),
    Peak(r"\bRTX 5090\b(?! D| Laptop)", 104.8, 104.8, 209.5, 419, 1_792),
    Peak(r"\bL40S\b", 91.6, 183, 362, 733, 864),
    Peak(r"\bL40\b", 90.5, 90.5, 181, 362, 864),
    Peak(r"\bL20\b", 59.8, 59.8, 119.5, 239, 864),
    Peak(r"\bL4\b", 30.3, 60, 121, 242, 300),
    Peak(r"\bH20\b(?!-3e)", 44, 74, 148, 296, 4_000, 450),
    Peak(r"\bH[18]00\b.*PCIe", 51, 378, 756, 1_513, 2_000),
    Peak(r"\bH100\b", 67, 494, 989, 1_979, 3_350, 450),
    # An H100 with fewer links
    Peak(r"\bH800\b", 67, 494, 989, 1_979, 3_350, 200),
    Peak(r"\bH200\b", 67, 494, 989, 1_979, 4_800, 450),
    Peak(r"\bGH200\b.*144G", 67, 494, 989, 1_979, 4_900, 450),
    Peak(r"\bGH200\b", 67, 494, 989, 1_979, 4_000, 450),
    Peak(r"\bB200\b", 75, 1_100, 2_250, 4_500, 7_700, 900),
    # A device is one of the two dies of MI250 and MI250X: half of the data sheet.
    Peak(r"\bMI250X\b", 47.9, None, 191.5, None, 1_638),
    Peak(r"\bMI250\b", 45.3, None, 181, None, 1_638),
    Peak(r"\bMI210\b", 45.3, None, 181, None, 1_638),
    Peak(r"\bMI300X\b", 163.4, 653.7, 1_307.4, 2_614.9, 5_300, 448),
    Peak(r"\bMI325X\b", 163.4, 653.7, 1_307.4, 2_614.9, 6_000, 448),
    Peak(r"\bMI355X\b", 157.3, None, 2_500, 5_000, 8_000),
    # A device is one of the two stacks of Max 1550 (ZE_FLAT_DEVICE_HIERARCHY=FLAT, the default): half of the card.
    Peak(r"\bData Center GPU Max 1550\b", 26.2, 209.5, 419, None, 1_638),
    Peak(r"\bData Center GPU Max 1100\b", 22.2, 176, 352, None, 1_229),
)


class OwnPeaks(NamedTuple):
    """Peak rates that the user set, and what is wrong with them; "" = nothing."""

    peaks: tuple[Peak, ...]
    problem: str = ""


def own_peaks() -> OwnPeaks:
    """Returns the peak rates in TORCH_TRACE_PEAKS. A problem is logged once."""
    text = os.environ.get(VARIABLE, "").strip()
    return _parsed(text) if text else OwnPeaks(())


@lru_cache(maxsize=8)
def _parsed(text: str) -> OwnPeaks:
    try:
        return OwnPeaks(tuple(_peak(part) for part in text.split(";") if part.strip()))
    except ValueError as error:
        log.warning("%s: %s. Only the built-in peak rates are used.", VARIABLE, error)
        return OwnPeaks((), str(error))


def _peak(text: str) -> Peak:
    name, _, values = text.rpartition(":")
    rates: dict[str, float] = {}
    for item in values.split():
        key, _, number = item.partition("=")
        if key not in ("fp32", "tf32", "fp16", "fp8", "bandwidth"):
            raise ValueError(f"{item[:40]!r} is not fp32, tf32, fp16, fp8 or bandwidth with a number")
        try:
            rates[key] = float(number)
        except ValueError:
            rates[key] = 0.0
        if not 0 < rates[key] < 1e9:
            raise ValueError(f"{item[:40]!r} has no positive number")
    try:
        re.compile(name.strip())
    except re.error as error:
        raise ValueError(f"{name.strip()[:40]!r} is not a regular expression: {error}") from error
    if not name.strip() or not {"fp32", "fp16", "bandwidth"} <= rates.keys():
        raise ValueError(f"{text.strip()[:60]!r} needs a device name, fp32, fp16 and bandwidth")
    return Peak(name.strip(), rates["fp32"], rates.get("tf32"), rates["fp16"], rates.get("fp8"), rates["bandwidth"])


def peak_of(name: str) -> Peak | None:
    """Returns the peak rates of the device with this name, None if unknown. The user's rates come first."""
    every = (*own_peaks().peaks, *PEAKS)
    return next((peak for peak in every if re.search(peak.pattern, name, re.IGNORECASE)), None)
