"""Replays of captured graphs: their work and operators.

A replay runs no operator. Operators, modules, shapes and stacks come from the capture, if a piece of work can be matched to a
captured launch. ``Way`` says how.
"""
