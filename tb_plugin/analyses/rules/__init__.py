"""Rules: what makes steps slow, one file each; RULES is the literal list of them."""

from tb_plugin.analyses.rules import (
    communication,
    data_loading,
    data_parallel,
    deterministic_sync,
    distributed_backend,
    driver_memory_calls,
    exposed_copies,
    low_utilization,
    matrix_units,
    memory_limit,
    pageable_copies,
    repeated_copies,
    synchronising_calls,
)
from tb_plugin.analyses.rules.base import Rule

RULES: tuple[Rule, ...] = (
    data_loading.RULE,
    synchronising_calls.RULE,
    deterministic_sync.RULE,
    pageable_copies.RULE,
    exposed_copies.RULE,
    repeated_copies.RULE,
    driver_memory_calls.RULE,
    communication.RULE,
    matrix_units.RULE,
    data_parallel.RULE,
    distributed_backend.RULE,
    memory_limit.RULE,
    low_utilization.RULE,
)
"""In the order in which they are told where savings are equal."""
