"""The generator of MegEngine's timelines of samples/, importable by tests as ``synthetic.py`` is."""

from tests.synthetic import loaded

generator = loaded("megengine_training")
