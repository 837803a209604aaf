"""Merged stacks: nodes, functions, callers and callees.

Used for both traces and stack files.
"""
