"""Rules: what makes steps slow, one file each; RULES is the literal list of them."""

from tb_plugin.analyses.rules import (
    communication,
    compilation,
    data_loading,
    data_parallel,
    distributed_backend,
    driver_memory_calls,
    garbage_collection,
    launch_bound,
    low_utilization,
    matrix_units,
    memory_limit,
    profiler_overhead,
    python_bound,
    slow_first_step,
    small_batch,
    step_outliers,
    synchronising_calls,
)
from tb_plugin.analyses.rules.base import Rule

RULES: tuple[Rule, ...] = (
    data_loading.RULE,
    synchronising_calls.RULE,
    driver_memory_calls.RULE,
    launch_bound.RULE,
    small_batch.RULE,
    python_bound.RULE,
    garbage_collection.RULE,
    compilation.RULE,
    slow_first_step.RULE,
    step_outliers.RULE,
    profiler_overhead.RULE,
    communication.RULE,
    matrix_units.RULE,
    data_parallel.RULE,
    distributed_backend.RULE,
    memory_limit.RULE,
    low_utilization.RULE,
)
"""In the order in which they are told where savings are equal."""
