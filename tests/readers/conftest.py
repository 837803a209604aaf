"""Sources for reader tests."""

from __future__ import annotations
