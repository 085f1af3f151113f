"""The fixture `fx_golden`, and the objects that `fx_golden(...)` and `fx_golden.inline(...)` return."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

import pytest

from pytest_fxgraph.arguments import check_options, shows_options
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.golden_file import GoldenFiles
from pytest_fxgraph.gate.obtained import GoldenOptions, GraphOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Comparison(Protocol):
    def compare(self, subject: object, options: GoldenOptions) -> Exception | None: ...


class Expectation(ABC):
    """One side of `==`; the other side is the subject. A mismatch raises an AssertionError at once.

    `assert` alone would raise an error without words under --assert=plain and in helpers.
    """

    # Without it numpy compares element by element. torch asks for it, too, and leaves the comparison to this class.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # a set or dict would compare, and keep an outcome
    _fixture = "fx_golden"
    _remedy = ""  # of `!=`, behind the remedy for every fixture
    _matched = 0  # the id of the subject that was compared last

    @abstractmethod
    def _compare(self, subject: object) -> Exception | None: ...

    def __eq__(self, subject: object) -> bool:
        """Compare the subject with its golden and return True; raise the error of a comparison that failed."""
        __tracebackhide__ = True
        error = self._compare(subject)
        if error is not None:
            raise error
        self._matched = id(subject)
        return True

    def __ne__(self, subject: object) -> NoReturn:
        """Raise GateError, because any broken graph would be unequal."""
        __tracebackhide__ = True
        raise GateError(
            f"`!=` with {self._fixture} is refused: nothing could be recorded for it, and any broken graph would pass; "
            f"write `assert subject == {self._fixture}`{self._remedy}"
        )

    def __bool__(self) -> NoReturn:
        """Raise GateError, because `assert fx_golden(...)` would compare nothing and pass."""
        __tracebackhide__ = True
        raise GateError(
            f"{self._fixture} is neither true nor false: nothing is compared; write `assert subject == {self._fixture}`"
        )

    def __repr__(self) -> str:
        return self._fixture


class GoldenExpectation(Expectation):
    """The golden of a graph, with options."""

    _remedy = ", or compare two graphs with pytest_fxgraph.diff_graphs"

    def __init__(self, comparison: _Comparison, options: GoldenOptions) -> None:
        self._comparison = comparison
        self._options = options

    def _compare(self, subject: object) -> Exception | None:
        return self._comparison.compare(subject, self._options)


class InlineExpectation(GoldenExpectation):
    """The golden that stands in the test: `assert subject == fx_golden.inline(text)`."""

    def __init__(self, comparison: _Comparison, options: GoldenOptions, attempt: GoldenAttempt) -> None:
        super().__init__(comparison, options)
        self._attempt = attempt

    def check(self, subject: object) -> bool:
        """Compare as `==` does, and go on after a mismatch; return whether the subject matched."""
        __tracebackhide__ = True
        return self._attempt.fail_later(self._comparison.compare(subject, self._options), sys._getframe(1))

    def __repr__(self) -> str:
        return "fx_golden.inline(...)"


class FxGolden(GoldenExpectation):
    """The golden file of the test: `assert subject == fx_golden`."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt) -> None:
        super().__init__(GoldenFiles(item, attempt), {})
        self._item = item
        self._attempt = attempt

    @classmethod
    def of_test(cls, item: pytest.Item, attempt: GoldenAttempt) -> FxGolden:
        """Make the fixture of one test. From now on the test has to compare something."""
        attempt.ask("fx_golden")
        return cls(item, attempt)

    @shows_options(GoldenOptions)
    def __call__(self, **options: Unpack[GoldenOptions]) -> GoldenExpectation:
        """Return the golden with options that hold for this comparison.

        `name` tells several goldens of one test apart. With `example_inputs`, and `example_kwargs`, the shapes and
        dtypes of all values are part of the golden. `level` is "exact", "structure", "ops", "signature" or "cost", or
        of a capture "breaks" or "kernels"; `constants` is "exact", "close" or "shape". With `commutative`, the order of
        operands of commutative operators does not count; with `normalize`, the spelling of an operator does not count.
        `meta` names metadata of nodes that is part of the golden, such as ("partition_tag",). `code` is "always", or
        "exact" for a golden that holds the generated code only where the level is exact. `budget` says by how much
        costs may differ at level "cost", such as {"flops": "+1%", "params": 0}. `frontend` says how a module becomes a
        graph: "symbolic", or with example inputs "export", "dynamo", "aot", "make_fx" or "inductor". A wrong value is
        refused by the comparison.
        """
        check_options(options, GoldenOptions, "fx_golden")
        return GoldenExpectation(self._comparison, options)

    @shows_options(GraphOptions)
    def inline(self, text: str | None = None, /, **options: Unpack[GraphOptions]) -> InlineExpectation:
        """Return a golden that stands in the test itself: `assert subject == fx_golden.inline(\"\"\" ... \"\"\")`.

        Begin with `fx_golden.inline()`; --fx-update-golden writes the text into the source at the end of the run. The
        options are those of `fx_golden(...)`, without `name` and `code`. Its `check(subject)` goes on after a mismatch.
        Raises GateError for anything but a text, and fails the test if nothing is compared with it.
        """
        __tracebackhide__ = True
        check_options(options, GraphOptions, "fx_golden.inline")
        if text is not None and not isinstance(text, str):
            raise GateError(
                f"fx_golden.inline takes the text of a golden in quotes, got {type(text).__name__}; write "
                "`fx_golden.inline()`, and have the text written by pytest --fx-update-golden"
            )
        from pytest_fxgraph.gate.inline_golden import InlineText

        place = InlineText(self._item, self._attempt, sys._getframe(1), text)
        return InlineExpectation(place, cast(GoldenOptions, options), self._attempt)

    @shows_options(GoldenOptions)
    def check(self, subject: object, **options: Unpack[GoldenOptions]) -> bool:
        """Compare as `==` does, and go on after a mismatch; the test fails at its end, with all mismatches.

        Takes the options of `fx_golden(...)`; returns whether the subject matched. Raises only for a subject that
        cannot be written down, or an option with a wrong value.
        """
        __tracebackhide__ = True
        check_options(options, GoldenOptions, "fx_golden.check")
        return self._attempt.fail_later(self._comparison.compare(subject, options), sys._getframe(1))


def foreign_comparison_message(op: str, left: object, right: object) -> list[str] | None:
    """Return the lines that explain a golden that was never asked, or a `not` before it; None for other comparisons."""
    goldens = [side for side in (left, right) if isinstance(side, GoldenExpectation)]
    if op not in ("==", "is", "in") or not goldens:
        return None
    subject = right if goldens[0] is left else left
    first = f"{type(subject).__qualname__} {op} fx_golden"
    if op == "==" and goldens[0]._matched == id(subject):
        return [first, "the comparison held, and a mismatch fails the test by itself;", "remove the `not`"]
    return [
        first,
        f"{type(subject).__qualname__} answered the comparison itself, so fx_golden was never asked;",
        "write `assert fx_golden == subject` or `fx_golden.check(subject)`",
    ]
