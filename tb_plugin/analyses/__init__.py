"""Questions and their numbers. One file = one view; ANALYSES is the literal list of them."""

from tb_plugin.analyses.base import Analysis

ANALYSES: tuple[Analysis, ...] = ()
