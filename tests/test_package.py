"""The package as others meet it: its entry points, its extras, what an import costs, who may import whom."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tb_plugin

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = ("numpy", "pandas", "pyarrow", "fsspec")
IMPORT_LIMIT_MS = 50


def entry_points(group: str) -> dict[str, str]:
    found = importlib.metadata.distribution("torch-trace-tb").entry_points
    return {point.name: point.value for point in found if point.group == group}


def test_tensorboard_finds_the_plugin() -> None:
    points = entry_points("tensorboard_plugins")
    assert points == {"torch_trace": "tb_plugin.plugin:TorchTracePlugin"}
    (loaded,) = [p.load() for p in importlib.metadata.entry_points(group="tensorboard_plugins", name="torch_trace")]
    assert loaded.plugin_name == "torch_trace"


def test_the_command_exists() -> None:
    assert entry_points("console_scripts") == {"torch-trace": "tb_plugin.cli:main"}
    answer = subprocess.run(
        [sys.executable, "-m", "tb_plugin", "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == f"torch-trace {tb_plugin.__version__}"


def test_one_version() -> None:
    assert PROJECT["version"] == tb_plugin.__version__ == importlib.metadata.version("torch-trace-tb")
    assert f"## {tb_plugin.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(("extra", "package"), [("s3", "s3fs"), ("gcs", "gcsfs"), ("azure", "adlfs")])
def test_extras_bring_cloud_storage(extra: str, package: str) -> None:
    required = importlib.metadata.requires("torch-trace-tb") or []
    assert any(re.match(rf"{package}\b.*extra == .{extra}.", line) for line in required), required


IMPORT = """
import json, sys, time
before = set(sys.modules)
begin = time.process_time()
import tensorboard.plugins.base_plugin
host = time.process_time()
import tb_plugin.plugin
end = time.process_time()
print(json.dumps({"ms": (end - host) * 1000, "loaded": sorted(set(sys.modules) - before)}))
"""


def test_the_import_is_light() -> None:
    """TensorBoard imports the plugin at every start: under 50 ms beyond TensorBoard itself, and nothing heavy."""
    runs = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    assert not {name for name in runs[0]["loaded"] if name.split(".")[0] in HEAVY}
    assert statistics.median(run["ms"] for run in runs) < IMPORT_LIMIT_MS


def test_no_module_makes_an_array_while_it_is_imported() -> None:
    """The first ``pa.array`` of a process brings pandas along, which costs a tenth of a second."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "tb_plugin").rglob("*.py")]
    wanted = [name.removesuffix(".__init__") for name in sorted(names) if not name.endswith("__main__")]
    script = (
        f"import importlib, sys\nfor name in {wanted}: importlib.import_module(name)\n"
        "from tb_plugin.views.distributed.rank.profile import schema_hash; schema_hash()\n"  # in TensorBoard's process
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def contracts() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


@pytest.mark.parametrize("package", ["devices", "formats", "views"])
def test_every_extension_is_in_its_contract(package: str) -> None:
    """A new accelerator, format or view needs no line of setup.cfg, and cannot import its siblings."""
    listed = contracts()[f"importlinter:contract:{package}"]["modules"].split()
    assert listed == [f"tb_plugin.{package}.*"]
