"""The table of operators: plain data in `table.json`, the same whichever torch is installed.

Each operator has the facts that hold for it. `non_aliasing`: its result never shares storage with an argument, unless
it writes there. `random`, and `random_if`: only if an argument is true, given as (position, names, default).
`mutates`: it writes its first argument. `writes_if`: it writes these arguments if one is true. `view`: its result is
new, or a view of its first argument. `quantizes`: its result is of a quantized type. `collective`: other processes take
part in it, and it writes the arguments in `writes`. `waits`: it returns its argument once a collective has written it.
`side_effect`, `global_state`, `commutative`, `cse_banned`, and `operator` with `parameters`: how `normalize` spells it.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Facts = Mapping[str, Any]

_NOTHING: Facts = {}
# Their functions are named after the module: torch.linalg.norm is linalg_norm.
_PREFIXED = frozenset({"fft", "linalg", "special"})
# Arguments of operators that are a group of processes, or its name.
GROUP_ARGUMENTS = frozenset({"group_name", "process_group"})
_DEFINES_COLLECTIVES = "torch.distributed.distributed_c10d"


@functools.cache
def operator_table() -> Mapping[str, Facts]:
    """Return the facts of every operator in the table by its name. Read once, when first asked."""
    table: dict[str, Facts] = json.loads(Path(__file__).with_name("table.json").read_text(encoding="utf-8"))
    return table


def facts_of_name(name: str) -> Facts:
    """Return what is known of a function or method: `torch.nn.functional.relu`, `operator.add`, `clone`."""
    table = operator_table()
    module, _, short = name.rpartition(".")
    if module == "torch.distributed":
        return table.get(name, _NOTHING)  # its `gather` is not that of tensors
    own = table.get(name, _NOTHING)
    if not module.startswith("torch"):
        return own
    if module == "torch.nn.init" and not short.endswith("_"):
        short += "_"  # `normal` is the old name of `normal_`
    family = module.rpartition(".")[2]
    general = table.get(f"{family}_{short}") if family in _PREFIXED else None
    return {**(general or table.get(short, _NOTHING)), **own}


def facts_of_function(function: Any) -> Facts:
    """Return what is known of a function of torch, `operator` or `builtins`; nothing of any other."""
    name = getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and owner.__module__.startswith("torch.distributed."):
        module = f"{owner.__module__}.{owner.__qualname__}"  # the class whose `apply` it is
    return _facts_of(module, name) if isinstance(name, str) and isinstance(module, str) else _NOTHING


@functools.lru_cache(maxsize=4096)
def facts_of_operator(operator: Any) -> Facts:
    """Return what is known of an operator of `torch.ops`, with or without overload.

    Of aten the table knows more than schemas say. Of all others a schema without aliases promises new tensors: torch
    demands that of operators that libraries register.
    """
    is_packet = hasattr(operator, "overloads")
    namespace, _, name = (operator._qualified_op_name if is_packet else operator.name()).partition("::")
    if namespace == "aten":
        return facts_of_name(name.partition(".")[0])
    overloads = [getattr(operator, each) for each in operator.overloads()] if is_packet else [operator]
    facts: dict[str, Any] = {}
    if namespace.endswith("c10d_functional") and name.partition(".")[0] == "wait_tensor":
        return {"waits": True}  # its schema promises a new tensor
    if any(map(_names_group, overloads)) or (namespace == "c10d_functional" and not name.startswith("_")):
        facts["collective"] = True
    if all(map(promises_new_tensors, overloads)):
        facts["non_aliasing"] = True
    return facts


def _names_group(operator: Any) -> bool:
    return any(each.name in GROUP_ARGUMENTS for each in operator._schema.arguments)


def promises_new_tensors(operator: Any) -> bool:
    """Tell whether the schema of an overload says that its results share no storage with its arguments."""
    schema = operator._schema
    has_aliases = any(each.alias_info for each in (*schema.arguments, *schema.returns))
    return not has_aliases and all(tag.name != "maybe_aliasing_or_mutating" for tag in operator.tags)


@functools.lru_cache(maxsize=4096)  # dead code asks twice of each call: a third of its time
def _facts_of(module: str, name: str) -> Facts:
    root = module.partition(".")[0]
    if root in ("_operator", "builtins"):
        return facts_of_name(f"{root.removeprefix('_')}.{name}")
    if module == _DEFINES_COLLECTIVES:
        module = "torch.distributed"
    return facts_of_name(f"{module}.{name}") if root == "torch" else _NOTHING


def inplace_argument(function: Any) -> tuple[int, str] | None:
    """Return position and name of the argument that makes `function` write its first one; None if it has none."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # most functions written in C have no signature
        return None
    return (parameters.index("inplace"), "inplace") if "inplace" in parameters else None


def names_mutation(name: str) -> bool:
    """Tell whether a name says, as torch's names do, that the first argument is written: one underscore at its end."""
    return name.endswith("_") and not name.endswith("__")
