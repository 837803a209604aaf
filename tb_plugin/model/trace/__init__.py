"""The trace model: columns, strings, nesting, steps."""
