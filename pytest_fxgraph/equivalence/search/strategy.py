"""Which recipes a search tries: first a list of corners, then what hypothesis draws.

Raises GateError if hypothesis is not installed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, TypeVar

from pytest_fxgraph.equivalence.search.layouts import LAYOUTS
from pytest_fxgraph.equivalence.search.recipe import Recipe, SearchSpace
from pytest_fxgraph.equivalence.search.values import BOOL_KINDS, FLOAT_KINDS, INTEGER_KINDS, VARIED_KINDS
from pytest_fxgraph.errors import GateError

try:
    import hypothesis
    from hypothesis import strategies as st
except ImportError as missing:
    raise GateError(
        "search= needs hypothesis, which is not installed: pip install 'pytest-fxgraph[hypothesis]'"
    ) from missing

_T = TypeVar("_T")

_KINDS = tuple(dict.fromkeys((*FLOAT_KINDS, *INTEGER_KINDS, *BOOL_KINDS)))
_SEED_BITS = 12


def corners(space: SearchSpace, seed: int) -> list[Recipe]:
    """List the recipes in which one thing is odd, of each sort of thing the likeliest first."""
    example = space.example(seed)
    sizes = [
        replace(example, sizes=_put(example.sizes, index, size))
        for index, variable in enumerate(space.sizes)
        for size in _by_interest(variable.options, variable.example)
    ]
    together = [
        replace(example, sizes=tuple(choose(variable.options, variable.example) for variable in space.sizes))
        for choose in (_of_other_parity, _next_larger)
    ]
    values = [
        _with_kind(space, example, kind)
        for kind in (
            *("negative", "ends", "zeros", "ties", "minus_zero", "normal", "nan", "infinite", "constant", "accepted"),
            *("huge", "subnormal", "tens", "integers", "ones", "wide", "mixed"),
        )
    ]
    layouts = [
        replace(example, layouts=tuple(layout if layout in each.layouts else each.layouts[0] for each in space.tensors))
        for layout in ("reversed", "sliced", "expanded", "transposed", "channels_last", "offset")
    ]
    around = [replace(example, second_call=True)]
    around += [replace(example, context=context) for context in space.contexts[1:]]
    around += [
        replace(example, scalars=_put(example.scalars, index, value))
        for index, scalar in enumerate(space.scalars)
        for value in scalar.options[1:]
    ]
    in_turn = chain.from_iterable(zip_longest(sizes, values, layouts, around))
    listed = [*(together if space.sizes else []), *(recipe for recipe in in_turn if recipe is not None)]
    return [recipe for recipe in dict.fromkeys(listed) if recipe != example]


def _by_interest(options: Sequence[int], example: int) -> list[int]:
    """Order sizes: one, the neighbours of the example, two, the others."""
    wanted = (1, example + 1, example - 1, 2)
    return [
        *(size for size in wanted if size in options),
        *(size for size in options if size not in (*wanted, example)),
    ]


def _of_other_parity(options: Sequence[int], example: int) -> int:
    return min(
        (size for size in options if (size - example) % 2), key=lambda size: abs(size - example), default=example
    )


def _next_larger(options: Sequence[int], example: int) -> int:
    return min((size for size in options if size > example), default=example)


def _with_kind(space: SearchSpace, example: Recipe, kind: str) -> Recipe:
    kinds = zip(space.tensors, example.kinds, strict=True)
    return replace(example, kinds=tuple(kind if kind in each.kinds else own for each, own in kinds))


def _put(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _one_of(options: Sequence[_T]) -> st.SearchStrategy[_T]:
    """Return a strategy for one of some options that shrinks to the first.

    Of booleans alone: for numbers, hypothesis also draws constants that it reads in the project's modules, so that an
    edit elsewhere would change what a seed draws, and keeps these constants in a folder.
    """
    if len(options) == 1:
        return st.just(options[0])
    bits = max(1, (len(options) - 1).bit_length()) + 2
    return st.tuples(*[st.booleans()] * bits).map(lambda drawn: options[_number(drawn) * len(options) >> bits])


def _either(*strategies: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    """Return a strategy for what one of some strategies draws; st.one_of() draws a number."""
    return _one_of(strategies).flatmap(lambda strategy: strategy)


def _number(bits: tuple[bool, ...]) -> int:
    return sum(bit << place for place, bit in enumerate(reversed(bits)))


def recipes(space: SearchSpace) -> st.SearchStrategy[Recipe]:
    """Return a strategy for recipes; half of them have many varied values, the others odd ones."""
    return _either(_odd(space), _varied(space))


def _varied(space: SearchSpace) -> st.SearchStrategy[Recipe]:
    """Draw recipes of large inputs, or of the example's sizes, that differ in their values."""
    example = space.example()
    large = tuple(variable.large or variable.example for variable in space.sizes)
    # One large dimension suffices.
    chosen = [_put(example.sizes, index, size) for index, size in enumerate(large) if size != example.sizes[index]]
    kinds = [_with_kind(space, example, kind).kinds for kind in VARIED_KINDS]
    return st.builds(
        Recipe,
        sizes=_one_of(chosen[:2] or [example.sizes]),
        kinds=_one_of(list(dict.fromkeys(kinds))),
        layouts=st.just(example.layouts),
        scalars=st.just(example.scalars),
        seed=_one_of(range(2**_SEED_BITS)),
    )


def _odd(space: SearchSpace) -> st.SearchStrategy[Recipe]:
    alike = [_with_kind(space, space.example(), kind).kinds for kind in _KINDS]
    each_of_its_own = st.tuples(*(_one_of(each.kinds) for each in space.tensors))
    same_layout = [
        tuple(layout if layout in each.layouts else each.layouts[0] for each in space.tensors) for layout in LAYOUTS
    ]
    plain = tuple(each.layouts[0] for each in space.tensors)
    return st.builds(
        Recipe,
        sizes=st.tuples(*(_one_of(variable.options) for variable in space.sizes)),
        kinds=_either(_one_of(list(dict.fromkeys(alike))), each_of_its_own),
        layouts=_either(
            st.just(plain), _one_of(same_layout), st.tuples(*(_one_of(each.layouts) for each in space.tensors))
        ),
        scalars=st.tuples(*(_one_of((*scalar.options[:1] * 2, *scalar.options)) for scalar in space.scalars)),
        context=_one_of(("", "", "", *space.contexts)),
        second_call=_one_of((False, False, False, True)),
        seed=_one_of(range(2**_SEED_BITS)),
    )


def simpler_recipes(space: SearchSpace, found: Recipe) -> st.SearchStrategy[Recipe]:
    """Return a strategy for a recipe and simpler ones, in which less is odd."""
    example = space.example()

    def choices(values: Sequence[Any], simple: Sequence[Any]) -> list[st.SearchStrategy[Any]]:
        return [_one_of(list(dict.fromkeys((first, value)))) for first, value in zip(simple, values, strict=True)]

    sizes = [
        _one_of(sorted({*(size for size in variable.options if size <= min(3, own)), own}))
        for variable, own in zip(space.sizes, found.sizes, strict=True)
    ]
    kinds = [
        _one_of(list(dict.fromkeys((*each.kinds[:3], own))))
        for each, own in zip(space.tensors, found.kinds, strict=True)
    ]
    return st.builds(
        Recipe,
        sizes=st.tuples(*sizes),
        kinds=st.tuples(*kinds),
        layouts=st.tuples(*choices(found.layouts, example.layouts)),
        scalars=st.tuples(*choices(found.scalars, example.scalars)),
        context=_one_of(list(dict.fromkeys(("", found.context)))),
        second_call=_one_of(sorted({False, found.second_call})),
        seed=st.just(found.seed),
    )


class SearchStopped(BaseException):
    """Nothing more is to be drawn; hypothesis, which catches every Exception, lets it through."""


class _Found(Exception):  # noqa: N818 - nothing went wrong
    """Tells hypothesis that a recipe is one of those that are looked for."""


def minimal(
    strategy: st.SearchStrategy[Recipe],
    is_wanted: Callable[[Recipe], bool],
    seed: int,
    tries: int,
    is_over: Callable[[], bool] = lambda: False,
) -> Recipe | None:
    """Return the simplest recipe that is wanted, or None if none of the drawn ones is, or once `is_over` says so.

    What is drawn depends on the seed alone, and nothing is stored. `is_wanted` must answer alike for equal recipes.
    """
    last: list[Recipe] = []

    def run(recipe: Recipe) -> None:
        if is_over():
            raise SearchStopped
        if is_wanted(recipe):
            last[:] = [recipe]
            raise _Found

    settings = hypothesis.settings(
        max_examples=tries,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    given: list[Callable[[], None]] = []

    def decorate() -> None:
        given.append(hypothesis.seed(seed)(settings(hypothesis.given(strategy)(run))))

    # hypothesis lets nobody decorate a function while it runs a test, as it does if the test that calls is one of its
    # own, and asks that of the thread. What is decorated may be called.
    decorating = threading.Thread(target=decorate)
    decorating.start()
    decorating.join()
    with contextlib.suppress(_Found, SearchStopped, hypothesis.errors.Flaky):
        given[0]()
    return last[0] if last else None
