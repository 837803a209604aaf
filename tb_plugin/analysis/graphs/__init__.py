"""Replays of captured graphs: which work each launch brought, and what stands behind every piece of it.

A replay runs no operator: operators, modules, shapes and stacks of its work are those of the capture, as far as something
tells which launch of the capture a piece of work stands for. Every such tie says how it is known (``Way``).
"""
