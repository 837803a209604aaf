"""``torch-trace skill``: instructions for agents."""

from __future__ import annotations

import argparse
from importlib.resources import files

from tb_plugin.cli.exit_codes import OK
from tb_plugin.cli.terminal import print_text


def skill(arguments: argparse.Namespace) -> int:
    """Prints the skill as Markdown and returns the exit code."""
    del arguments
    print_text(files("tb_plugin.cli").joinpath("skill.md").read_text(encoding="utf-8"))
    return OK
