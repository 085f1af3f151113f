"""The words that a user chooses from, as types and as tuples.

Every run of pytest loads this file, and each of these types takes 160,000 instructions. Types that no setting needs are
in `arguments`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

if TYPE_CHECKING:
    _Word = TypeVar("_Word", bound=str)

# Errors are imported at their `raise`, for the same reason.

Level = Literal["exact", "structure", "ops", "signature", "cost", "breaks", "kernels"]
ConstantForm = Literal["exact", "close", "shape"]
CodeForm = Literal["folded", "always", "exact"]
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
SearchValues = Literal["all", "finite"]
Frontend = Literal["symbolic", "export", "dynamo", "aot", "make_fx", "inductor"]

BESIDE = "beside"  # in place of the golden folder: one folder beside each test file
LEVELS: tuple[Level, ...] = get_args(Level)  # of comparison, the strictest level first
# How a recorded graph came about. The fixtures' own graphs are `fixture`; `module` is an eager call, traced after its
# test.
RECORDED_KINDS = ("fixture", "symbolic", "export", "dynamo", "aot", "make_fx", "module")
CONSTANT_FORMS: tuple[ConstantForm, ...] = get_args(ConstantForm)  # comparison of floats in arguments and constants
CODE_FORMS: tuple[CodeForm, ...] = get_args(CodeForm)  # when a golden holds the generated code
CHECKS: tuple[Check, ...] = get_args(Check)
FRONTENDS: tuple[Frontend, ...] = get_args(Frontend)  # ways from a module to one graph or several
SEARCH_VALUES_NAMED: tuple[SearchValues, ...] = get_args(SearchValues)  # floats of a search


def checks_named(names: str | Iterable[str]) -> frozenset[Check]:
    """Return the checks of one name or several. Raises ChoiceError for an unknown name, or without a name."""
    chosen = words_named(names, CHECKS, "check", "structure, types and shapes are always compared")
    if not chosen:
        from pytest_fxgraph.errors import ChoiceError

        raise ChoiceError(f"checks=() compares nothing; name at least one of {', '.join(map(repr, CHECKS))}")
    return chosen


def words_named(names: str | Iterable[str], words: tuple[_Word, ...], kind: str, note: str) -> frozenset[_Word]:
    """Return the words of one name or several. Raises ChoiceError for an unknown name; the note ends its message."""
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
