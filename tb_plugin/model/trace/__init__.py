"""The one trace model: columns, strings, nesting, steps. Knows no format, no vendor and no view."""
