"""The words that a user chooses from: as types for type checkers, and as tuples for checks at run time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

# Errors are imported at their `raise`, because every run of pytest loads this file.

Level = Literal["exact", "structure", "ops", "signature", "cost", "breaks"]
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
Frontend = Literal["symbolic", "export", "dynamo", "aot", "make_fx"]

BESIDE = "beside"  # in place of the golden folder: one folder beside each test file
LEVELS: tuple[Level, ...] = get_args(Level)  # of comparison, the strictest level first
CONSTANT_FORMS: tuple[ConstantForm, ...] = get_args(ConstantForm)  # comparison of floats in arguments and constants
CODE_FORMS: tuple[CodeForm, ...] = get_args(CodeForm)  # when a golden holds the generated code
CHECKS: tuple[Check, ...] = get_args(Check)
MODES: tuple[Mode, ...] = get_args(Mode)  # of a model's run
FRONTENDS: tuple[Frontend, ...] = get_args(Frontend)  # ways from a module to one graph or several
TRACES: tuple[Trace, ...] = get_args(Trace)  # ways from a module to the graph for a pass


def checks_named(names: str | Iterable[str]) -> frozenset[Check]:
    """Return the checks of one name or several. Raises ChoiceError for an unknown name, or without a name."""
    wanted = (names,) if isinstance(names, str) else tuple(names)
    from pytest_fxgraph.errors import ChoiceError

    for name in wanted:
        if name not in CHECKS:
            import difflib

            near = difflib.get_close_matches(str(name), CHECKS, n=1, cutoff=0.65)
            suggestion = f" (did you mean {near[0]!r}?)" if near else ""
            raise ChoiceError(f"there is no check {name!r}{suggestion}; there are {', '.join(map(repr, CHECKS))}; "
                              "structure, types and shapes are always compared")  # fmt: skip
    if not wanted:
        raise ChoiceError(f"checks=() compares nothing; name at least one of {', '.join(map(repr, CHECKS))}")
    return frozenset(check for check in CHECKS if check in wanted)
