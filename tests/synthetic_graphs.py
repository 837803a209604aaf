"""The generator of replays of samples/, importable by tests as ``synthetic.py`` is."""

import sys

from tests.synthetic import generate, loaded

# It shares the recorder of the generator beside it, which is no package either.
sys.modules.setdefault("synthetic", sys.modules[generate.__module__])
generator = loaded("synthetic_graphs")

Plan = generator.Plan
File = generator.File
generate = generator.generate
write = generator.write
