"""Payloads as JSON, and their JSON Schema for TypeScript."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from tb_plugin.payloads.catalog import Catalog, Problem, Profile
from tb_plugin.payloads.report import Report
from tb_plugin.payloads.table import Table
from tb_plugin.payloads.view import View

ROOTS = (View, Table, Catalog, Profile, Problem, Report)


def to_json(payload: object) -> bytes:
    """Encodes a payload as UTF-8 JSON. NaN and infinities become null."""
    return msgspec.json.encode(payload)


def json_schema() -> dict[str, Any]:
    """Returns a JSON Schema that has one definition per payload class."""
    _, definitions = msgspec.json.schema_components(ROOTS, ref_template="#/definitions/{name}")
    for schema in definitions.values():
        properties = schema.get("properties")
        if properties is not None:
            # All fields are always sent, including those with a default.
            schema["required"] = list(properties)
            schema["additionalProperties"] = False
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Payloads",
        "type": "object",
        "additionalProperties": False,
        "properties": {root.__name__: {"$ref": f"#/definitions/{root.__name__}"} for root in ROOTS},
        "required": [root.__name__ for root in ROOTS],
        "definitions": definitions,
    }


if __name__ == "__main__":
    json.dump(json_schema(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
