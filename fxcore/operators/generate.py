"""Write the table of operators: what the schemas of the installed torch say, joined with what is written by hand.

`python -m fxcore.operators.generate` writes `table.json`; with `--check` it tells whether the file is up to date.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch.nn import functional

from fxcore.operators import by_hand

TABLE = Path(__file__).with_name("table.json")
# The torch whose schemas the table in the repository is made from.
TORCH_VERSION = "2.13.0"

_FAMILIES = {"fft_": torch.fft, "linalg_": torch.linalg, "special_": torch.special}
_REQUIRED = inspect.Parameter.empty
_Defaults = dict[str, Any]  # parameters in order; _REQUIRED where there is no default


def table_text() -> str:
    """Return the table as its file has it: one operator a line, sorted."""
    table: dict[str, dict[str, Any]] = defaultdict(dict)
    overloads = _overloads()
    for name, operators in overloads.items():
        if name not in by_hand.MAY_ALIAS and all(map(_promises_new_tensors, operators)):
            table[name]["non_aliasing"] = True
        if any(torch.Tag.nondeterministic_seeded in each.tags for each in operators):
            table[name]["random"] = True
    for fact, names in by_hand.FLAGS.items():
        for name in sorted(names):
            table[name][fact] = True
    for name in [name for name, facts in table.items() if "random" in facts]:
        if condition := _random_condition(name, overloads.get(name, ())):
            table[name]["random_if"] = condition
    for name, facts in (*_norms(overloads), *_spellings(overloads)):
        table[name].update(facts)
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _overloads() -> dict[str, list[OpOverload]]:
    """Return the operators that programs call by name, each with its overloads but for those with `out=`."""
    found: dict[str, list[OpOverload]] = defaultdict(list)
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        name, _, overload = qualified.removeprefix("aten::").partition(".")
        if qualified.startswith("aten::") and _is_public(name):
            operator = getattr(getattr(torch.ops.aten, name), overload or "default")
            if not any(each.is_out for each in operator._schema.arguments):
                found[name].append(operator)
    return found


def _is_public(name: str) -> bool:
    if name.startswith(("_", *by_hand.INTERNAL)):
        return False
    places = [(owner, name) for owner in (torch, torch.Tensor, functional, torch._C._nn)]
    places += [(owner, name.removeprefix(prefix)) for prefix, owner in _FAMILIES.items() if name.startswith(prefix)]
    return any(callable(getattr(owner, short, None)) for owner, short in places)


def _promises_new_tensors(operator: OpOverload) -> bool:
    schema = operator._schema
    has_aliases = any(each.alias_info for each in (*schema.arguments, *schema.returns))
    return not has_aliases and torch.Tag.maybe_aliasing_or_mutating not in operator.tags


def _random_condition(name: str, operators: Sequence[OpOverload]) -> tuple[int, list[str], object] | None:
    """Find the argument without which nothing random happens: its place, names and default."""
    signatures = [*map(_schema_defaults, operators), _inspected(getattr(functional, name, None))]
    switches = ("dropout_p",) if any("dropout_p" in each for each in signatures) else ("training", "train")
    found = [(list(each).index(key), key, each[key]) for each in signatures for key in switches if key in each]
    if len({position for position, _, _ in found}) != 1:  # none, or not at one place in all overloads
        return None
    default = found[-1][2]  # torch.nn.functional's, if it has one
    return found[0][0], sorted({key for _, key, _ in found}), True if default in (_REQUIRED, None) else default


def _norms(overloads: dict[str, list[OpOverload]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Find the running statistics that norms write, and the argument that makes them do so."""
    for name, function in (
        ("batch_norm", functional.batch_norm),
        ("native_batch_norm", functional.batch_norm),
        ("instance_norm", functional.instance_norm),
    ):
        defaults = _inspected(function)
        switch = "use_input_stats" if "use_input_stats" in defaults else "training"
        for key, signature in (
            (name, _schema_defaults(overloads[name][0])),
            # torch.nn.functional takes them in another order.
            (f"torch.nn.functional.{name}", defaults),
        ):
            order = list(signature)
            written = [(order.index(each), each) for each in ("running_mean", "running_var")]
            if key != "torch.nn.functional.native_batch_norm":
                yield key, {"writes_if": [written, [order.index(switch), [switch], defaults[switch]]]}


def _spellings(overloads: dict[str, list[OpOverload]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Say how the operators that `normalize` knows are written: their parameters and defaults in each spelling."""
    kinds = {name: kind for kind, name in by_hand.MODULE_SPELLINGS.items()}
    for name in sorted(by_hand.NORMALIZED | by_hand.NORMALIZED_FUNCTIONAL):
        schema = _merged_defaults(overloads[name])
        of_function = _inspected(getattr(functional, name, None)) or schema
        of_module = _inspected(getattr(torch.nn, kinds[name])) if name in kinds else {}
        defaults = {**of_function, **schema}
        # Schemas write 1 for the 1.0 of the constructor.
        defaults |= {key: each for key, each in (of_function | of_module).items() if defaults.get(key) == each}
        if name in by_hand.NORMALIZED:
            yield name, _spelling(name, schema, defaults)
        if name in by_hand.NORMALIZED_FUNCTIONAL:
            yield f"torch.nn.functional.{name}", _spelling(name, of_function, defaults)
        if name in kinds:
            yield f"torch.nn.{kinds[name]}", _spelling(name, of_module, defaults)
        for spelling in [each for each, operator in by_hand.SPELLINGS.items() if operator == name]:
            yield spelling, _spelling(name, schema, defaults)


def _spelling(operator: str, parameters: Iterable[str], defaults: _Defaults) -> dict[str, Any]:
    texts = {key: None if defaults[key] is _REQUIRED else _text(defaults[key]) for key in parameters}
    return {"operator": operator, "parameters": texts}


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _merged_defaults(operators: Iterable[OpOverload]) -> _Defaults:
    """Join the signatures of the overloads that take a tensor first; what one of them lacks may be left out."""
    signatures = [
        _schema_defaults(each)
        for each in operators
        if str(each._schema.arguments[0].type) == "Tensor"
        and not any("Dimname" in str(argument.type) for argument in each._schema.arguments)
    ]
    merged = {key: default for signature in signatures for key, default in signature.items()}
    for key, default in merged.items():
        if default is _REQUIRED and not all(key in signature for signature in signatures):
            merged[key] = None
    return merged


def _schema_defaults(operator: OpOverload) -> _Defaults:
    return {
        # torch.add and its like call it `input`.
        "input" if each.name == "self" else each.name: each.default_value if each.has_default_value() else _REQUIRED
        for each in operator._schema.arguments
    }


def _inspected(function: Any) -> _Defaults:
    """Return the parameters of a Python function or constructor; nothing of one that is written in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {each.name: each.default for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD}


def main(arguments: Sequence[str]) -> int:
    """Write the table, or with `--check` compare it; return 1 if it is out of date."""
    text = table_text()
    if "--check" not in arguments:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    is_current = TABLE.read_text(encoding="utf-8") == text
    print(f"{TABLE.name} is " + ("up to date" if is_current else "stale: run python -m fxcore.operators.generate"))
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
