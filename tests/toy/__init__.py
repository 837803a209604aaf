"""A second model from end to end: a few named numbers in a JSON file of its own.

This proves the seams. What a format with a model of its own needs stands in this folder alone, and reaches every process
by ``TORCH_TRACE_EXTENSIONS=tests.toy``.
"""

from tests.toy.model import NumbersModel
from tests.toy.reader import ToyReader
from tests.toy.views import Listed, Negative, Shares

READERS = (ToyReader(),)
MODELS = (NumbersModel(),)
ANALYSES = (Listed(), Shares(), Negative())
