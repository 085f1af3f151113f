"""Arguments that no setting has: their words and types; and functions that take a record of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from pytest_fxgraph.choices import words_named

# One number for everything, or numbers by globs of paths: {"output[0]": 1e-3, "*.logits": 1e-2}.
NumberByPath = float | Mapping[str, float]
Mode = Literal["eval", "train"]
Trace = Literal["fxcore", "torch", "export"]
# A pass keeps each of these, unless its test says that it may change it.
Promise = Literal["ranges", "signature", "val", "refusals", "hooks", "collectives"]

MODES: tuple[Mode, ...] = get_args(Mode)  # of a model's run
PROMISES: tuple[Promise, ...] = get_args(Promise)  # of a pass, beside the results
TRACES: tuple[Trace, ...] = get_args(Trace)  # ways from a module to the graph for a pass


def promises_named(names: str | Iterable[str]) -> frozenset[Promise]:
    """Return the promises of one name or several. Raises ChoiceError for an unknown name."""
    return words_named(names, PROMISES, "promise", "results and inputs are always compared")


_Function = TypeVar("_Function", bound=Callable[..., Any])


def shows_options(record: type, **defaults: object) -> Callable[[_Function], _Function]:
    """Show the options of a record in the signature of a function; an option without a default here shows None.

    `help()`, IPython and the documentation then list each option with its type and its default.
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        given = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=hint)
            for name, hint in get_type_hints(record).items()
        ]
        function.__signature__ = signature.replace(parameters=[*given, *options])  # type: ignore[attr-defined]  # read by inspect
        return function

    return decorate


def check_options(options: Mapping[str, object], record: type, function: str) -> None:
    """Raise TypeError, as Python does, for an option that the function does not have."""
    unknown = next((name for name in options if name not in record.__annotations__), None)
    if unknown is not None:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown!r}")
