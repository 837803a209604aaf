"""Rules: what makes steps slow, one file each; RULES is the literal list of them."""

from tb_plugin.analyses.rules import (
    communication,
    data_loading,
    data_parallel,
    distributed_backend,
    driver_memory_calls,
    low_utilization,
    matrix_alignment,
    matrix_units,
    memory_limit,
    memory_unused,
    one_stream,
    reserved_oscillation,
    serial_collectives,
    small_collectives,
    synchronising_calls,
    tf32_off,
    tiny_elementwise,
    unfused_attention,
    unfused_optimizer,
)
from tb_plugin.analyses.rules.base import Rule

RULES: tuple[Rule, ...] = (
    data_loading.RULE,
    synchronising_calls.RULE,
    driver_memory_calls.RULE,
    communication.RULE,
    serial_collectives.RULE,
    small_collectives.RULE,
    matrix_units.RULE,
    tf32_off.RULE,
    matrix_alignment.RULE,
    unfused_attention.RULE,
    unfused_optimizer.RULE,
    tiny_elementwise.RULE,
    one_stream.RULE,
    data_parallel.RULE,
    distributed_backend.RULE,
    memory_limit.RULE,
    memory_unused.RULE,
    reserved_oscillation.RULE,
    low_utilization.RULE,
)
"""In the order in which they are told where savings are equal."""
