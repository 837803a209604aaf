"""The trace model: columns, strings, nesting, steps.

This package does not depend on file formats, vendors or views.
"""
