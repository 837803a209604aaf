"""The generator of Ascend's profiles of samples/, importable by tests as ``synthetic.py`` is."""

from tests.synthetic import loaded

generator = loaded("npu_training")
