"""The trace model: columns, strings, nesting, steps.

It does not depend on file formats, vendors or views.
"""
