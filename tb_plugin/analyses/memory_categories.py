"""The categories of memory: how they are called, what they mean and in which order they are stacked."""

from __future__ import annotations

from collections.abc import Mapping

TITLES: Mapping[str, str] = {
    "parameter": "Parameters",
    "optimizer_state": "Optimizer state",
    "gradient": "Gradients",
    "activation": "Activations",
    "autograd_detail": "Autograd detail",
    "input": "Inputs",
    "temporary": "Temporary",
    "unknown": "Unknown",
}
"""By id, in the order of stacking: what stays longest lies at the bottom."""
MEANINGS: Mapping[str, str] = {
    "parameter": "Tensors that the optimizer updates, and buffers that count as such.",
    "optimizer_state": "What the optimizer keeps for each parameter from step to step.",
    "gradient": "Gradients of parameters.",
    "activation": "What the forward pass computed and kept for the backward pass.",
    "autograd_detail": "What the backward pass computes on the way to the gradients.",
    "input": "What depends on no parameter: batches, labels, masks.",
    "temporary": "Allocated and released within one operator.",
    "unknown": "Memory that belongs to none of them, such as what the optimizer's step needs while it runs.",
}
