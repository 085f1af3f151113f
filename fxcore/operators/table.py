"""The table of operators: plain data in `table.json`, equal under every installed torch.

Each operator has the facts that hold for it; `by_hand.txt` describes them. Some facts have a value. `random_if`: the
operator draws random numbers only if an argument is true, given as (position, names, default). `writes_if`: it writes
these arguments if another one is true. `collective`: other processes take part, and it writes the arguments in
`writes`. `waits`: it returns its argument after a collective has written it. `operator` and `parameters` are the
spelling of `normalize`.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

Facts = Mapping[str, Any]

NO_FACTS: Facts = {}
# These modules prefix the names of their functions: torch.linalg.norm is linalg_norm.
FAMILIES = {"fft_": torch.fft, "linalg_": torch.linalg, "special_": torch.special}
# Arguments of operators that hold a group of processes or its name.
GROUP_ARGUMENTS = frozenset({"group_name", "process_group"})
# Modules whose functions the table lists under another module.
_PUBLIC_MODULES = {"_operator": "operator", "torch.distributed.distributed_c10d": "torch.distributed"}


@functools.cache
def operator_table() -> Mapping[str, Facts]:
    """Return the facts of every operator by its name. The first call reads the file."""
    table: dict[str, Facts] = json.loads(Path(__file__).with_name("table.json").read_text(encoding="utf-8"))
    return table


def facts_of_name(name: str) -> Facts:
    """Return the facts of a function or method: `torch.nn.functional.relu`, `operator.add`, `clone`."""
    table = operator_table()
    module, _, short = name.rpartition(".")
    own = table.get(name, NO_FACTS)
    # torch.distributed.gather is another function than torch.gather.
    if not module.startswith("torch") or module == "torch.distributed":
        return own
    if module == "torch.nn.init" and not short.endswith("_"):
        short += "_"  # `normal` is the old name of `normal_`
    prefix = f"{module.rpartition('.')[2]}_"
    general = table.get(prefix + short) if prefix in FAMILIES else None
    return {**(general or table.get(short, NO_FACTS)), **own}


def name_of_function(function: Any) -> str:
    """Return the name of a function with its module, as the table spells it; "" for an object without a name."""
    name = getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and owner.__module__.startswith("torch.distributed."):
        module = f"{owner.__module__}.{owner.__qualname__}"  # `apply` of an autograd function
    elif getattr(function, "__objclass__", None) is torch._C.TensorBase:
        module = "torch.Tensor"
    return f"{_PUBLIC_MODULES.get(module, module)}.{name}" if isinstance(name, str) and isinstance(module, str) else ""


def facts_of_operator(operator: Any) -> Facts:
    """Return the facts of an operator of `torch.ops`, with or without overload.

    The table knows more about aten than the schemas. For every other operator a schema without aliases promises new
    tensors, because torch demands this of operators that libraries register.
    """
    is_packet = hasattr(operator, "overloads")
    namespace, _, name = (operator._qualified_op_name if is_packet else operator.name()).partition("::")
    if namespace == "aten":
        short = name.partition(".")[0]
        return facts_of_name(short) or facts_of_name(f"aten.{short}")
    overloads = [getattr(operator, each) for each in operator.overloads()] if is_packet else [operator]
    facts: dict[str, Any] = {}
    if namespace.endswith("c10d_functional") and name.partition(".")[0] == "wait_tensor":
        return {"waits": True}  # its schema promises a new tensor
    names = [argument.name for each in overloads for argument in each._schema.arguments]
    if not GROUP_ARGUMENTS.isdisjoint(names) or (namespace == "c10d_functional" and not name.startswith("_")):
        facts["collective"] = True
    if all(map(promises_new_tensors, overloads)):
        facts["non_aliasing"] = True
    return facts


def promises_new_tensors(operator: Any) -> bool:
    """Return whether the schema of an overload says that its results share no memory with its arguments."""
    schema = operator._schema
    has_aliases = any(each.alias_info for each in (*schema.arguments, *schema.returns))
    return not has_aliases and all(tag.name != "maybe_aliasing_or_mutating" for tag in operator.tags)


def inplace_argument(function: Any) -> tuple[int, str] | None:
    """Return position and name of the argument that makes `function` write its first argument, if there is one."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # most functions written in C have no signature
        return None
    return (parameters.index("inplace"), "inplace") if "inplace" in parameters else None


def names_mutation(name: str) -> bool:
    """Return whether a name ends with exactly one underscore: torch's mark of writing the first argument."""
    return name.endswith("_") and not name.endswith("__")
