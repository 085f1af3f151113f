"""The words that a user chooses from, as types and as tuples; and functions that take a record of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_type_hints

# Errors are imported at their `raise`, because every run of pytest loads this file.

Level = Literal["exact", "structure", "ops", "signature", "cost", "breaks", "kernels"]
ConstantForm = Literal["exact", "close", "shape"]
CodeForm = Literal["folded", "always", "exact"]
Mode = Literal["eval", "train"]
# Parts of a comparison of eager and graph, besides the structure and shapes of the outputs.
Check = Literal[
    "values",
    "dtype",
    "device",
    "layout",
    "strides",
    "requires_grad",
    "aliasing",
    "mutation",
    "state",
    "second call",
    "rng",
    "global state",
    "gradients",
]
# One number for everything, or numbers by globs of paths: {"output[0]": 1e-3, "*.logits": 1e-2}.
NumberByPath = float | Mapping[str, float]
Trace = Literal["fxcore", "torch", "export"]
SearchValues = Literal["all", "finite"]
# A pass keeps each of these, unless its test says that it may change it.
Promise = Literal["ranges", "signature", "val", "refusals", "hooks", "collectives"]
Frontend = Literal["symbolic", "export", "dynamo", "aot", "make_fx", "inductor"]

BESIDE = "beside"  # in place of the golden folder: one folder beside each test file
LEVELS: tuple[Level, ...] = get_args(Level)  # of comparison, the strictest level first
# How a recorded graph came about. The fixtures' own graphs are `fixture`; `module` is an eager call, traced after its
# test.
RECORDED_KINDS = ("fixture", "symbolic", "export", "dynamo", "aot", "make_fx", "module")
CONSTANT_FORMS: tuple[ConstantForm, ...] = get_args(ConstantForm)  # comparison of floats in arguments and constants
CODE_FORMS: tuple[CodeForm, ...] = get_args(CodeForm)  # when a golden holds the generated code
CHECKS: tuple[Check, ...] = get_args(Check)
MODES: tuple[Mode, ...] = get_args(Mode)  # of a model's run
FRONTENDS: tuple[Frontend, ...] = get_args(Frontend)  # ways from a module to one graph or several
SEARCH_VALUES_NAMED: tuple[SearchValues, ...] = get_args(SearchValues)  # floats of a search
PROMISES: tuple[Promise, ...] = get_args(Promise)  # of a pass, beside the results
TRACES: tuple[Trace, ...] = get_args(Trace)  # ways from a module to the graph for a pass


def checks_named(names: str | Iterable[str]) -> frozenset[Check]:
    """Return the checks of one name or several. Raises ChoiceError for an unknown name, or without a name."""
    chosen = _named(names, CHECKS, "check", "structure, types and shapes are always compared")
    if not chosen:
        from pytest_fxgraph.errors import ChoiceError

        raise ChoiceError(f"checks=() compares nothing; name at least one of {', '.join(map(repr, CHECKS))}")
    return chosen


def promises_named(names: str | Iterable[str]) -> frozenset[Promise]:
    """Return the promises of one name or several. Raises ChoiceError for an unknown name."""
    return _named(names, PROMISES, "promise", "results and inputs are always compared")


_Word = TypeVar("_Word", bound=str)


def _named(names: str | Iterable[str], words: tuple[_Word, ...], kind: str, note: str) -> frozenset[_Word]:
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in words:
            import difflib

            from pytest_fxgraph.errors import ChoiceError

            near = difflib.get_close_matches(str(name), words, n=1, cutoff=0.65)
            suggestion = f" (did you mean {near[0]!r}?)" if near else ""
            raise ChoiceError(
                f"there is no {kind} {name!r}{suggestion}; there are {', '.join(map(repr, words))}; {note}"
            )
    return frozenset(word for word in words if word in wanted)


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
