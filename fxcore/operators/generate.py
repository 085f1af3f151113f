"""Writer of the table of operators: the schemas of the installed torch, joined with facts written by hand.

`python -m fxcore.operators.generate` writes `table.json`; with `--check` it reports whether the file is up to date.
"""

from __future__ import annotations

import functools
import inspect
import json
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.nn import functional

from fxcore.operators.syntax import INPLACE_OPERATORS, OPERATORS
from fxcore.operators.table import FAMILIES, promises_new_tensors

TABLE = Path(__file__).with_name("table.json")
# The repository's table is made from the schemas of this torch.
TORCH_VERSION = "2.13.0"

_FLAGS = (
    *("non_aliasing", "random", "side_effect", "global_state", "changes_state", "mutates", "commutative", "cse_banned"),
    *("quantizes", "view", "changes_attributes", "changes_items", "asks_shape", "asks_type", "asks_structure"),
    *("asks_mode", "takes_part", "fills", "sized_by_contents"),
)
_REQUIRED = inspect.Parameter.empty
_Defaults = dict[str, Any]  # parameters in order; _REQUIRED for one without a default
_Overloads = dict[str, list[OpOverload]]


def facts_by_hand() -> dict[str, dict[str, str]]:
    """Return `by_hand.txt` as a dict: fact -> names for which it holds, each with the text behind its equals sign."""
    facts: dict[str, dict[str, str]] = {}
    for line in Path(__file__).with_name("by_hand.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            names = facts[line.strip("[]")] = {}
            prefix = ""
        for word in () if line.startswith(("#", "[")) else line.split():
            name, _, value = word.partition("=")
            if name.endswith("."):
                prefix = name
            else:
                names[prefix + name] = value
    facts["non_aliasing"] |= dict.fromkeys((f"operator.{name}" for name in OPERATORS.keys() - {"getitem", "pos"}), "")
    for name in INPLACE_OPERATORS:
        facts["mutates"] |= {f"operator.{name}": "", f"__{name}__": ""}
    return facts


def table_text() -> str:
    """Return the text of the table's file: one operator a line, sorted."""
    table: dict[str, dict[str, Any]] = defaultdict(dict)
    by_hand = facts_by_hand()
    overloads = callable_overloads(tuple(by_hand["internal"]))
    for name, operators in overloads.items():
        if name not in by_hand["may_alias"] and all(map(promises_new_tensors, operators)):
            table[name]["non_aliasing"] = True
        if any(torch.Tag.nondeterministic_seeded in each.tags for each in operators):
            table[name]["random"] = True
        if written := _written_behind_first(name, operators):
            table[name]["writes_if"] = written, None
    for fact in _FLAGS:
        for name in by_hand[fact]:
            table[name][fact] = True
    for name, argument in by_hand["collective"].items():
        order = _parameters_of_collective(name)
        table[name].update(collective=True, writes=[(order.index(argument), argument)] if argument else [])
    for name in [name for name, facts in table.items() if "random" in facts]:
        if condition := _random_condition(name, overloads.get(name, ())):
            table[name]["random_if"] = condition
    for name, switch in by_hand["writes_statistics"].items():
        # torch.nn.functional takes the arguments in another order.
        for key, signature in (
            (name, _schema_defaults(overloads[name][0])),
            (f"torch.nn.functional.{name}", _inspected(getattr(functional, name, None))),
        ):
            if order := list(signature):
                written = [(order.index(each), each) for each in ("running_mean", "running_var")]
                table[key]["writes_if"] = written, (order.index(switch), [switch], switch == "use_input_stats")
    for name, switch in by_hand["renormalizes"].items():
        order = list(_inspected(getattr(functional, name)))
        written = [(order.index("weight"), "weight")]
        table[f"torch.nn.functional.{name}"]["writes_if"] = written, (order.index(switch), [switch], None)
    for name, facts in _spellings(by_hand["spelling"], overloads):
        table[name].update(facts)
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def callable_overloads(internal: tuple[str, ...]) -> _Overloads:
    """Return the operators that programs call by name, each with its overloads except for those with `out=`.

    Names that begin with an item of `internal` are left out.
    """
    found: _Overloads = defaultdict(list)
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        name, _, overload = qualified.removeprefix("aten::").partition(".")
        if qualified.startswith("aten::") and not name.startswith(internal) and _is_callable(name):
            operator = getattr(getattr(torch.ops.aten, name), overload or "default")
            if not any(each.is_out for each in operator._schema.arguments):
                found[name].append(operator)
    return found


def _written_behind_first(name: str, operators: Iterable[OpOverload]) -> list[tuple[int, str]]:
    """Return the arguments behind the first that an operator always writes, by its schemas."""
    if name.endswith("_"):
        return []
    arguments = [pair for each in operators for pair in enumerate(each._schema.arguments)]
    return sorted({(at, each.name) for at, each in arguments if at and each.alias_info and each.alias_info.is_write})


def _is_callable(name: str) -> bool:
    places = [(owner, name) for owner in (torch, torch.Tensor, functional, torch._C._nn)]
    places += [(owner, name.removeprefix(prefix)) for prefix, owner in FAMILIES.items() if name.startswith(prefix)]
    return any(callable(getattr(owner, short, None)) for owner, short in places)


def _random_condition(name: str, operators: Sequence[OpOverload]) -> tuple[int, list[str], object] | None:
    """Return position, names and default of the argument that must be true for the operator to be random."""
    signatures = [*map(_schema_defaults, operators), _inspected(getattr(functional, name, None))]
    switches = ("dropout_p",) if any("dropout_p" in each for each in signatures) else ("training", "train")
    found = [(list(each).index(key), key, each[key]) for each in signatures for key in switches if key in each]
    if len({position for position, _, _ in found}) != 1:  # no switch, or different places in different overloads
        return None
    default = found[-1][2]  # torch.nn.functional's, if it has one
    return found[0][0], sorted({key for _, key, _ in found}), True if default in (_REQUIRED, None) else default


def _parameters_of_collective(name: str) -> list[str]:
    found: Any = pkgutil.resolve_name(name.removesuffix(".apply"))
    return list(_inspected(found.forward))[1:] if hasattr(found, "forward") else list(_inspected(found))


def _spellings(by_hand: dict[str, str], overloads: _Overloads) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield for each spelling the operator that it calls, its parameters in order, and the texts of their defaults."""
    operators = {name: other or name.rpartition(".")[2] for name, other in by_hand.items()}
    inspected = {name: _inspected(_python_object(name)) for name in operators}
    python: dict[str, _Defaults] = defaultdict(dict)
    for name, operator in operators.items():
        python[operator] |= inspected[name]
    for name, operator in operators.items():
        schema, written = _merged_defaults(overloads[operator]), python[operator]
        # If two defaults are equal, Python's text counts: schemas write 1 for Python's 1.0.
        defaults = written | schema | {key: each for key, each in written.items() if schema.get(key) == each}
        is_module = name.rpartition(".")[2][0].isupper()
        parameters = inspected[name] if is_module or inspected[name] else schema
        texts = {key: None if defaults[key] is _REQUIRED else _text(defaults[key]) for key in parameters}
        yield name, {"operator": operator, "parameters": texts}


def _python_object(name: str) -> Any:
    return functools.reduce(getattr, name.split(".")[1:], torch) if name.startswith("torch.nn.") else None


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _merged_defaults(operators: Iterable[OpOverload]) -> _Defaults:
    """Return the joint signature of the overloads that take a tensor or tensors first, keywords behind positions.

    A parameter that an overload lacks may be left out, so its default is None.
    """
    schemas = [
        each._schema.arguments
        for each in operators
        if str(each._schema.arguments[0].type) in ("Tensor", "List[Tensor]")
    ]
    signatures = [_defaults_of(arguments) for arguments in schemas]
    places = [_defaults_of(each for each in arguments if not each.kwarg_only) for arguments in schemas]
    merged = {key: default for signature in (*places, *signatures) for key, default in signature.items()}
    for key, default in merged.items():
        if default is _REQUIRED and not all(key in signature for signature in signatures):
            merged[key] = None
    return merged


def _schema_defaults(operator: OpOverload) -> _Defaults:
    return _defaults_of(operator._schema.arguments)


def _defaults_of(arguments: Iterable[Any]) -> _Defaults:
    return {
        # The Python signatures of torch.add and other functions call the first argument `input`.
        "input" if each.name in ("self", "tensors") else each.name: (
            each.default_value if each.has_default_value() else _REQUIRED
        )
        for each in arguments
    }


def _inspected(function: Any) -> _Defaults:
    """Return the parameters of a Python function or constructor; an empty dict for a function written in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {each.name: each.default for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD}


def main(arguments: Sequence[str]) -> int:
    """Write the table, or with `--check` compare it; return 1 if the file is stale."""
    text = table_text()
    if "--check" not in arguments:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    is_stale = TABLE.read_text(encoding="utf-8") != text
    print("table.json is stale: run python -m fxcore.operators.generate" if is_stale else "table.json is up to date")
    return int(is_stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
