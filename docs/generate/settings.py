"""Settings: environment variables, what they mean and their defaults."""

from __future__ import annotations

from tb_plugin.settings import SETTINGS

HEAD = """# Settings

All settings are environment variables of the process that runs TensorBoard, `torch-trace` or Python.

| variable | meaning | default |
|---|---|---|"""
TAIL = """
Storage credentials have their own variables: [clouds](../cloud.md). One file in the log directory is a setting, too:
`torch_trace_ignore` dismisses findings for everyone ([how](../findings.md#leave-a-finding-out))."""


def page() -> str:
    """Returns the page."""
    return "\n".join([HEAD, *(f"| `{each.name}` | {each.meaning} | {each.default} |" for each in SETTINGS), TAIL])
