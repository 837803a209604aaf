"""The notebooks of the docs in a real kernel, and the end of the page's server."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from tests.depth import needs_time

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SHOWN = {
    "first_trace": ["Data loading takes 14.5 ms", "aten::convolution_backward", "<iframe", "The step time changed"],
    "memory": ["remember_loss", "block_size_bytes", "Out of memory at event", "is unused at event", "<iframe"],
    "eight_ranks": ["Other ranks wait for rank5", "caused_wait_ns", "From the baseline", "rank7", "<iframe"],
}

pytestmark = needs_time


@pytest.fixture(autouse=True)
def this_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels import the package of this folder, and write nothing into the home directory."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    yield


def client_of(notebook: nbformat.NotebookNode) -> NotebookClient:
    metadata = {"metadata": {"path": str(ROOT / "docs" / "notebooks")}}
    return NotebookClient(notebook, timeout=300, kernel_name="python3", resources=metadata)


def outputs(notebook: nbformat.NotebookNode) -> str:
    data = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(each.get("text/html", each.get("text/plain", "")) for each in data)


def test_all_notebooks_are_run() -> None:
    assert [each.stem for each in NOTEBOOKS] == sorted(SHOWN)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_works(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    client_of(notebook).execute()
    shown = outputs(notebook)
    assert [words for words in SHOWN[path.stem] if words not in shown] == []
    assert "stderr" not in {output.get("name") for cell in notebook.cells for output in cell.get("outputs", ())}


CODE = """
import tb_plugin, urllib.request
p = tb_plugin.open("../../samples/synthetic_gpu")
page = p.show()
urllib.request.urlopen(page.address.partition("#")[0] + "view/overview?run=synthetic_gpu").read()
assert page.address == p.show().address  # one server per log directory
page
"""


@pytest.mark.parametrize("how", ["shutdown", "kill"])
def test_the_server_of_the_page_ends_with_the_kernel(how: str) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    client = client_of(notebook)
    with client.setup_kernel():
        client.execute_cell(notebook.cells[0], 0)
        found = re.search(r'src="([^"#]+)', outputs(notebook))
        assert found is not None
        address = found[1]
        assert b"html" in urllib.request.urlopen(address).read()
        (kernel,) = (each for each in psutil.Process().children() if "ipykernel_launcher" in each.cmdline())
        workers = kernel.children()
        assert workers
        if how == "kill":
            kernel.kill()
    with pytest.raises(URLError):
        urllib.request.urlopen(address, timeout=5)
    assert psutil.wait_procs(workers, timeout=20)[1] == []
