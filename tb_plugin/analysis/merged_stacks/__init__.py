"""Merged stacks: nodes, functions, callers and callees.

Used for traces and for stack files.
"""
