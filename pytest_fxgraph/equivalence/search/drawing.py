"""hypothesis draws recipes and shrinks the recipe that it found.

Importing this file raises GateError if hypothesis is not installed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pytest_fxgraph.equivalence.search.recipe import LAYOUTS, Recipe, SearchSpace
from pytest_fxgraph.equivalence.search.values import EITHER, INDEX_BITS, PATTERN, PATTERN_LENGTH, Fill, ValueRange
from pytest_fxgraph.errors import GateError

try:
    import hypothesis
    from hypothesis import strategies as st
except ImportError as missing:
    raise GateError(
        "search= needs hypothesis, which is not installed: pip install 'pytest-fxgraph[hypothesis]'"
    ) from missing

_T = TypeVar("_T")

# The kinds of values of one try; a repeated kind is drawn more often. Ranges find faults of one value in a thousand.
_KINDS = (PATTERN, PATTERN, PATTERN, "range", "range", "accepted", "normal", "wide", "huge", "tiny")
_SEED_BITS = 12
# hypothesis varies its own examples after ten of them. Short rounds draw ten independent recipes each.
_TRIES_OF_ROUND = 10
_TRIES_OF_SMALLER = 30
_MOSTLY_TRUE = st.tuples(*[st.booleans()] * 4).map(any)


class SearchStopped(BaseException):
    """The search is over; hypothesis catches every Exception, and lets this class through."""


class _Found(Exception):  # noqa: N818 - a find is no error
    """Tells hypothesis that a recipe is wanted."""


def smallest(space: SearchSpace, is_wanted: Callable[[Recipe], bool], seed: int, tries: int) -> Recipe | None:
    """Return the smallest wanted recipe that hypothesis finds, or None.

    The draws depend on the seed alone, and nothing is stored. `is_wanted` must answer alike for equal recipes, and may
    raise SearchStopped.
    """
    drawn, found = recipes(space), None
    with contextlib.suppress(SearchStopped):
        # Twice as many rounds as the tries need, because some recipes are drawn twice.
        for round_ in range(2 * (tries // (_TRIES_OF_ROUND - 1) + 1)):
            found = minimal(drawn, is_wanted, seed + round_ * 2**32, _TRIES_OF_ROUND)
            if found is not None:
                smaller = (minimal(each, is_wanted, seed, _TRIES_OF_SMALLER) for each in smaller_recipes(space, found))
                return next(filter(None, smaller), found)
    return found


def minimal(strategy: st.SearchStrategy[_T], is_wanted: Callable[[_T], bool], seed: int, tries: int) -> _T | None:
    """Run hypothesis once; return the value that it shrinks its first find to.

    Raises SearchStopped if the search is over before the first find.
    """
    last: list[_T] = []

    def run(drawn: _T) -> None:
        if is_wanted(drawn):
            last[:] = [drawn]
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
    # Because given() refuses the thread of a running test of hypothesis, another thread calls given(). The user's test
    # may be a test of hypothesis. The decorated function itself runs here, with torch's modes of this thread.
    with ThreadPoolExecutor(1) as other_thread:
        drawn = other_thread.submit(lambda: hypothesis.seed(seed)(settings(hypothesis.given(strategy)(run)))).result()
    try:
        with contextlib.suppress(_Found, hypothesis.errors.Flaky):
            drawn()
    except SearchStopped:
        if not last:
            raise
    return last[0] if last else None


def recipes(space: SearchSpace) -> st.SearchStrategy[Recipe]:
    """Return a strategy for the recipes of a space; it shrinks to small tensors of zeros."""
    example = space.example()
    same_layout = [
        tuple(layout if layout in each.layouts else each.layouts[0] for each in space.tensors) for layout in LAYOUTS
    ]
    own_layouts = st.tuples(*(_one_of(each.layouts) for each in space.tensors))
    # In a quarter of the draws, one of the first two variables is large.
    sizes = [
        (*each.options, *[each.large] * (len(each.options) // 3)) if each.large and index < 2 else each.options
        for index, each in enumerate(space.sizes)
    ]
    drawn = st.builds(
        Recipe,
        sizes=st.tuples(*map(_one_of, sizes)),
        fills=_fills(space),
        layouts=_either(st.just(example.layouts), _one_of(same_layout), own_layouts),
        scalars=st.tuples(*(_one_of((*scalar.options[:1] * 2, *scalar.options)) for scalar in space.scalars)),
        context=_one_of(("", "", "", *space.contexts)),
        second_call=_one_of((False, False, False, True)),
        seed=_one_of(range(2**_SEED_BITS)),
        kept=st.just(()),  # st.builds() would draw a field that it is not given
    )
    return drawn.map(lambda recipe: recipe._replace(sizes=_with_one_large(space, recipe)))


def _with_one_large(space: SearchSpace, recipe: Recipe) -> tuple[int, ...]:
    """Return sizes with one large size at most, and without a large size for patterns of a few values."""
    larges = [index for index, each in enumerate(space.sizes) if recipe.sizes[index] == each.large]
    kept = larges[:1] if recipe.is_random else []
    return tuple(
        size if not larges or index in kept else min(size, each.example)
        for index, (size, each) in enumerate(zip(recipe.sizes, space.sizes, strict=True))
    )


def smaller_recipes(space: SearchSpace, found: Recipe) -> Iterator[st.SearchStrategy[Recipe]]:
    """Yield strategies for recipes of smaller tensors than the found recipe has, the strategy of the simplest first.

    A single number that is not zero comes first, then patterns, then the random values of the found recipe.
    """
    sizes = st.tuples(*(_one_of(sorted({*range(1, min(own, 4)), own} & {*each.options, own}))
                        for each, own in zip(space.sizes, found.sizes, strict=True)))  # fmt: skip
    fills = st.tuples(
        *(
            _pattern(each.values) if isinstance(fill, str) else st.tuples(*(_one_of(sorted({0, own})) for own in fill))
            for each, fill in zip(space.tensors, found.fills, strict=True)
        )
    )
    zeros = (0,) * (PATTERN_LENGTH - 1)
    single = st.tuples(*(_special_place(each.values).map(lambda place: (place, *zeros)) for each in space.tensors))
    for patterns in (single, fills):
        yield st.builds(lambda fills, sizes: found._replace(fills=fills, sizes=sizes, seed=0), patterns, sizes)
    if found.is_random:
        own_sizes = st.tuples(
            *(
                _own_or_smaller(own, [size for size in each.options if size < own])
                for each, own in zip(space.sizes, found.sizes, strict=True)
            )
        )
        bits = st.tuples(*[_index_bit()] * INDEX_BITS)
        yield st.builds(lambda kept, sizes: found._replace(kept=kept, sizes=sizes), bits, own_sizes)


def _fills(space: SearchSpace) -> st.SearchStrategy[tuple[Fill, ...]]:
    """Draw the values of all tensors, of the same kind or each of a kind of its own."""
    alike = _one_of(_KINDS).map(lambda kind: (kind,) * len(space.tensors))
    of_its_own = st.tuples(*(_one_of(each.values.kinds) for each in space.tensors))
    patterns = st.tuples(*(_pattern(each.values) for each in space.tensors))
    ordinary = space.example().fills

    def chosen(drawn: tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]) -> tuple[Fill, ...]:
        return tuple(
            pattern if kind == PATTERN else kind if kind in each.values.kinds else otherwise
            for kind, pattern, each, otherwise in zip(*drawn, space.tensors, ordinary, strict=True)
        )

    return st.tuples(_either(alike, alike, of_its_own), patterns).map(chosen)


def _pattern(values: ValueRange) -> st.SearchStrategy[tuple[int, ...]]:
    ordinary = _one_of(range(len(values.ordinary_values())))
    return st.tuples(_special_place(values), *[ordinary] * (PATTERN_LENGTH - 1))


def _special_place(values: ValueRange) -> st.SearchStrategy[int]:
    return _one_of(range(len(values.special_values())))


def _own_or_smaller(own: int, smaller: Sequence[int]) -> st.SearchStrategy[int]:
    """Draw a found size in 15 of 16 cases; shrink to a smaller size."""
    if not smaller:
        return st.just(own)
    return st.tuples(_MOSTLY_TRUE, _one_of(smaller)).map(lambda drawn: own if drawn[0] else drawn[1])


def _index_bit() -> st.SearchStrategy[int]:
    """Draw EITHER in 7 of 8 cases; shrink to 0 or 1 in one step.

    hypothesis first sets draws without an effect to False. Therefore both draws have an effect on EITHER.
    """
    return st.tuples(_MOSTLY_TRUE, _MOSTLY_TRUE).map(lambda drawn: EITHER if all(drawn) else int(drawn[1]))


def _one_of(options: Sequence[_T]) -> st.SearchStrategy[_T]:
    """Return a strategy for one of some options that shrinks to the first option.

    The strategy draws booleans alone. For numbers hypothesis also draws constants that it reads in the project's
    modules and keeps in a folder. An edit of any module would then change the draws of a seed.
    """
    if len(options) == 1:
        return st.just(options[0])
    bits = (len(options) - 1).bit_length()
    bits += 2 if len(options) != 2**bits else 0
    return st.tuples(*[st.booleans()] * bits).map(lambda drawn: options[_number(drawn) * len(options) >> bits])


def _either(*strategies: st.SearchStrategy[_T]) -> st.SearchStrategy[_T]:
    """Return a strategy that draws from all strategies and chooses one; it shrinks to the first strategy.

    hypothesis never accepts a longer draw for a smaller one. The draws of all strategies therefore have one length.
    """
    return st.tuples(_one_of(range(len(strategies))), *strategies).map(lambda drawn: drawn[1 + drawn[0]])


def _number(bits: tuple[bool, ...]) -> int:
    return sum(bit << place for place, bit in enumerate(reversed(bits)))
