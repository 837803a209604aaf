"""Replays of captured graphs: their device work and operators.

A replay runs no operators. Its operators, modules, shapes and stacks come from the graph's capture. ``Way`` lists
how they are found.
"""
