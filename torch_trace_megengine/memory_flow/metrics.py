"""Metrics of a memory flow."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED, define

RECORDING = "the whole recording"
MOMENT = "selected time, else the peak"

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "tensor_name": ("Tensor", "Recorded scopes, operator and output number."),
            "tensor_operator": ("Operator", "Operator in the tensor's name."),
            "tensor_producer": ("Produced by", "Scopes and operator without instance numbers."),
            "tensor_layout": ("Layout", "Recorded lengths, strides and type."),
            "tensor_address": ("Address", "First address of the tensor."),
        },
    ),
    define(
        RECORDING,
        "ns",
        {
            "flow_time_ns": ("Time", "Time on the recording's clock."),
            "flow_peak_time_ns": ("Peak at", "Earliest time of the peak."),
            "tensor_made_ns": ("Created at", "Creation time of the tensor."),
            "tensor_released_ns": ("Released at", "Release time of the tensor; empty: not recorded."),
            "tensor_life_ns": ("Lifetime", "Release (or recording end) minus creation."),
            "producer_life_ns": ("Longest lifetime", "Longest lifetime of the producer's tensors."),
        },
    ),
    define(
        RECORDING,
        "bytes",
        {
            "tensor_bytes": ("Size", "Bytes from the first element to the last."),
            "flow_used_bytes": ("In use", "Bytes used by tensors; shared bytes count once."),
            "flow_sum_bytes": ("Sum of sizes", "Sum of live tensor sizes."),
            "flow_most_shared_bytes": ("Peak shared", "Largest excess of the sum of sizes over bytes in use."),
            "flow_peak_bytes": ("Peak", "Largest bytes in use."),
            "producer_bytes": ("Total size", "Sum of the producer's tensor sizes."),
            "largest_tensor_bytes": ("Largest", "Size of the largest tensor."),
        },
    ),
    define(
        MOMENT,
        "bytes",
        {
            "flow_moment_used_bytes": ("In use", "Bytes in use at the selected time."),
            "flow_moment_shared_bytes": ("Shared", "Sum of sizes minus bytes in use."),
            "unnamed_bytes": ("Unnamed", "Bytes of unnamed tensors at the selected time."),
            "producer_moment_bytes": ("In use then", "Bytes in use by the producer at the selected time."),
        },
    ),
    define(MOMENT, "ns", {"flow_moment_ns": ("Selected time", "Selected time.")}),
    define(MOMENT, "count", {"flow_moment_tensors": ("Live tensors", "Live tensors at the selected time.")}),
    define(
        RECORDING,
        "count",
        {
            "flow_tensors": ("Tensors", "Recorded tensors."),
            "flow_peak_tensors": ("Tensors at the peak", "Live tensors at the peak."),
            "flow_unreleased": ("Not released", "Tensors without a recorded release."),
            "producer_tensors": ("Tensors", "Tensors of the producer."),
            "tensor_operator_number": ("Operator number", "Recorded operator number."),
            "tensor_number": ("Number", "Tensor number, in time order."),
        },
    ),
)
