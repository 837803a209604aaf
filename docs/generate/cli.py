"""Commands: usage and options, from the parsers of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tb_plugin import cli

HEAD = """# Commands

Usage and options of each command. [Commands and Python](../command-line.md) has examples, exit codes and the keys of
JSON output. `torch-trace --version` prints the version."""


def page() -> str:
    """Returns the page."""
    return "\n\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    (commands,) = (
        each for each in cli._parser(tuple(cli._COMMANDS))._actions if isinstance(each, argparse._SubParsersAction)
    )
    for command in commands._choices_actions:
        parser = commands.choices[command.dest]
        rows = [_row(action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]
        table = "\n".join(["| argument | meaning | default |", "|---|---|---|", *rows])
        yield f"## torch-trace {command.dest}\n\n{_sentence(command.help or '')}\n\n{table}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _row(action: argparse.Action) -> str:
    value = action.metavar or ("" if not action.option_strings else _choices(action) or action.dest.upper())
    name = f"{action.option_strings[-1]} {value}".strip() if action.option_strings else str(value)
    default = "" if action.default in (None, "", []) else f"`{action.default}`"
    repeatable = " Repeatable." if isinstance(action, argparse._AppendAction) else ""
    meaning = (action.help or "").replace("%%", "%").replace(" (repeatable)", "").replace("|", "\\|")
    return f"| `{name}` | {_sentence(meaning)}{repeatable} | {default} |"


def _choices(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
