"""The generator of allocator snapshots of samples/, importable by tests as ``synthetic.py`` is."""

from tests.synthetic import loaded

generator = loaded("synthetic_memory")
