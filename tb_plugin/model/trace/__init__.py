"""The trace model: columns, strings, nesting, steps.

It does not depend on formats, vendors or views.
"""
