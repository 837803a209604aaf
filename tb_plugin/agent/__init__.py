"""Tools for agents: ``torch-trace mcp``."""
