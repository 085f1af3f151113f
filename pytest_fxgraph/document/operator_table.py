"""fxcore's table of operators for the comparison of documents: plain data, read without importing fxcore or torch."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
from collections.abc import Mapping
from typing import Any


@functools.cache
def operator_table() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of every operator by its name. `fxcore.operators.table` describes the facts."""
    spec: Any = importlib.util.find_spec("fxcore")  # finds a package at the top without importing it
    path = os.path.join(spec.submodule_search_locations[0], "operators", "table.json")
    table: dict[str, dict[str, Any]] = json.loads(spec.loader.get_data(path))
    return table


def facts_of_call(op: str, target: str) -> Mapping[str, Any]:
    """Return the facts of a call of a function or method, named as in a document; an empty dict for other nodes."""
    table = operator_table()
    if op == "call_method":
        return table.get(target, {})
    if op != "call_function" or "." not in target:  # plain names in the table are torch's
        return {}
    module, _, name = target.rpartition(".")
    return {**(table.get(name, {}) if module == "torch" else {}), **table.get(target, {})}
