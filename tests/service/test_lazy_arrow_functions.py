"""pyarrow.compute with functions that are created at first use."""

import subprocess
import sys

import pyarrow.compute as pc
import pytest

START = """
import sys
from tb_plugin.service.workers import lazy_arrow_functions as lazy
{change}
lazy.create_arrow_functions_lazily()
import pyarrow as pa, pyarrow.compute as pc
"""
CHECK = """
assert pa.array([1, 2]).cast(pa.int32()).take(pa.array([1])).to_pylist() == [2]
assert pc.and_(pa.array([True, None]), False).to_pylist() == [False, None]
assert pc.match_substring_regex(pa.array(["ab", "c"]), "b$").to_pylist() == [True, False]
assert pc.sum(pa.array([1, None]), skip_nulls=False).as_py() is None
assert not hasattr(pc, "no_function") and len(pc.function_registry().list_functions()) > 200
print(*(name for name in {names} if not callable(getattr(pc, name))))
print("sqrt" in vars(pc), "pydoc" in sys.modules)
"""
NAMES = sorted(name for name, value in vars(pc).items() if hasattr(value, "__arrow_compute_function__"))


def run(change: str) -> list[str]:
    code = START.format(change=change) + "made = 'sqrt' in vars(pc)" + CHECK.format(names=NAMES) + "print(made)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_functions_are_created_at_first_use() -> None:
    assert run("") == ["True", "False", "False"]


@pytest.mark.parametrize("change", ["lazy._EARLY = ''", "lazy.SimpleNamespace = None", "lazy._complete = None"])
def test_an_unknown_pyarrow_is_imported_as_it_is(change: str) -> None:
    assert run(change) == ["True", "True", "True"]
