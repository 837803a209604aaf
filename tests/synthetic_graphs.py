"""The generator of replays of samples/, importable by tests as ``synthetic.py`` is."""

from tests.synthetic import loaded

generator = loaded("synthetic_graphs")

Plan = generator.Plan
File = generator.File
generate = generator.generate
write = generator.write
