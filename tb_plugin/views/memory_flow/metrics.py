"""Metrics of a memory flow."""

from __future__ import annotations

from tb_plugin.analysis.metrics import SHARED, define

RECORDING = "the whole recording"
MOMENT = "the chosen moment, else that of most memory in use"

METRICS = SHARED.adding(
    define(
        "",
        "code",
        {
            "tensor_name": ("Tensor", "Scopes, operator and number of the output that the tensor is, as recorded."),
            "tensor_operator": ("Operator", "What made the tensor: the last part of its name, without numbers."),
            "tensor_producer": (
                "Made by",
                "Scopes and operator of the tensor's name without the numbers that tell repeated calls apart.",
            ),
            "tensor_layout": ("Layout", "Lengths (strides) and type of the tensor, as recorded."),
            "tensor_address": ("Address", "First address of the tensor."),
        },
    ),
    define(
        RECORDING,
        "ns",
        {
            "flow_time_ns": ("Time", "Time on the clock of the recording."),
            "flow_peak_time_ns": ("Peak at", "First time at which most memory was in use."),
            "tensor_made_ns": ("Made at", "When the tensor was made."),
            "tensor_released_ns": ("Released at", "When its memory was released; empty: not while recording."),
            "tensor_life_ns": (
                "Lifetime",
                "Release less making; of one that was not released, until the recording ends.",
            ),
            "producer_life_ns": ("Longest lifetime", "Longest lifetime of a tensor of this producer."),
        },
    ),
    define(
        RECORDING,
        "bytes",
        {
            "tensor_bytes": ("Size", "Bytes from the tensor's first element to its last."),
            "flow_used_bytes": (
                "In use",
                "Bytes of all addresses at which a tensor lies: what several tensors share counts once.",
            ),
            "flow_sum_bytes": ("Sum of sizes", "Sizes of all tensors that are there: what they share counts for each."),
            "flow_most_shared_bytes": ("Most shared", "The most by which the sum of sizes is above the bytes in use."),
            "flow_peak_bytes": ("Peak", "Most bytes in use at a time."),
            "producer_bytes": ("Made in all", "Sizes of all tensors of this producer, one after the other or not."),
            "largest_tensor_bytes": ("Largest", "Size of the largest tensor."),
        },
    ),
    define(
        MOMENT,
        "bytes",
        {
            "flow_moment_used_bytes": ("In use", "Bytes in use at the moment."),
            "flow_moment_shared_bytes": ("Shared", "Sizes of the tensors that are there less the bytes in use."),
            "unnamed_bytes": ("Without a name", "Bytes at which a tensor without a name lies at the moment."),
            "producer_moment_bytes": (
                "Then",
                "Bytes at which a tensor of this producer lies at the moment: what its tensors share counts once, what "
                "those of two producers share for each.",
            ),
        },
    ),
    define(MOMENT, "ns", {"flow_moment_ns": ("Moment", "The moment that is looked at.")}),
    define(MOMENT, "count", {"flow_moment_tensors": ("Tensors then", "Tensors that are there at the moment.")}),
    define(
        RECORDING,
        "count",
        {
            "flow_tensors": ("Tensors", "Tensors that the recording tells of."),
            "flow_peak_tensors": ("Tensors at the peak", "Tensors that are there at the peak."),
            "flow_unreleased": ("Not released", "Tensors whose release was not recorded: they are there to the end."),
            "producer_tensors": ("Tensors", "Tensors of this producer."),
            "tensor_operator_number": ("Operator number", "Number of the operator that made the tensor, as recorded."),
            "tensor_number": ("Number", "Number of the tensor in order of time."),
        },
    ),
)
