"""Replays of captured graphs: their device work and operators.

A replay runs no operators. The operators, modules, shapes and stacks of its work come from the capture of the
graph. ``Way`` describes how they are found.
"""
