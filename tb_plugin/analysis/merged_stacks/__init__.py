"""Merged stacks: places, functions, callers and callees.

Independent of the kind of recording.
"""
