"""What a test gets as `fx_golden`, and what `fx_golden(...)` returns."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import pytest

from pytest_fxgraph.budget import Budget
from pytest_fxgraph.choices import CodeForm, ConstantForm, Frontend, Level
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.gate.attempt import GoldenAttempt, attempt_of
from pytest_fxgraph.gate.comparison import GoldenComparison
from pytest_fxgraph.gate.obtained import GoldenRequest


class _Comparison(Protocol):
    def compare(self, subject: object, request: GoldenRequest) -> Exception | None: ...


class GoldenExpectation:
    """Stands on one side of `==`, the subject on the other; a mismatch raises an AssertionError at once.

    It is raised, not left to `assert`, because a bare False would say nothing under --assert=plain and in helpers.
    """

    # numpy would compare element by element; torch asks for this, and leaves what is no tensor to us.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # comparing has an effect here, which a set or dict would hide

    def __init__(self, comparison: _Comparison, request: GoldenRequest) -> None:
        self._comparison = comparison
        self._request = request

    def __eq__(self, subject: object) -> bool:
        """Compare the subject with its golden; return True, or raise the error that the comparison returns."""
        __tracebackhide__ = True
        error = self._comparison.compare(subject, self._request)
        if error is not None:
            raise error
        return True

    def __ne__(self, subject: object) -> NoReturn:
        """Raise GateError: a golden says what a graph is, not what it is not."""
        __tracebackhide__ = True
        raise GateError(
            "`!=` with fx_golden is refused: nothing could be recorded for it, and any broken graph would pass; "
            "write `assert subject == fx_golden`, or compare two graphs with pytest_fxgraph.diff_graphs"
        )

    def __bool__(self) -> NoReturn:
        """Raise GateError: `assert fx_golden(...)` would compare nothing, and pass."""
        __tracebackhide__ = True
        raise GateError("fx_golden is neither true nor false: nothing is compared; write `assert subject == fx_golden`")

    def __repr__(self) -> str:
        return "fx_golden"


class InlineExpectation(GoldenExpectation):
    """The golden that stands in the test: `assert subject == fx_golden.inline(text)`."""

    def __init__(self, comparison: _Comparison, request: GoldenRequest, attempt: GoldenAttempt) -> None:
        super().__init__(comparison, request)
        self._attempt = attempt

    def check(self, subject: object) -> bool:
        """Compare as `==` does, but go on after a mismatch; return whether the subject matched."""
        __tracebackhide__ = True
        error = self._comparison.compare(subject, self._request)
        if error is not None:
            self._attempt.fail_later(str(error), sys._getframe(1))
        return error is None

    def __repr__(self) -> str:
        return "fx_golden.inline(...)"


class FxGolden(GoldenExpectation):
    """The golden file of the test: `assert subject == fx_golden`."""

    def __init__(self, item: pytest.Item, attempt: GoldenAttempt) -> None:
        super().__init__(GoldenComparison(item, attempt), GoldenRequest())
        self._item = item
        self._attempt = attempt

    @classmethod
    def of_test(cls, item: pytest.Item) -> FxGolden:
        """Make the fixture of one test, which from now on has to compare something."""
        attempt = attempt_of(item)
        attempt.asked = True
        return cls(item, attempt)

    def __call__(
        self,
        *,
        name: str | None = None,
        level: Level | None = None,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
        constants: ConstantForm | None = None,
        commutative: bool | None = None,
        normalize: bool | None = None,
        meta: Sequence[str] = (),
        code: CodeForm | None = None,
        budget: Budget | None = None,
        frontend: Frontend | None = None,
    ) -> GoldenExpectation:
        """Return what to compare with, with options that hold for this comparison.

        `name` tells several goldens of one test apart. With `example_inputs`, and `example_kwargs`, the shapes and
        dtypes of all values are part of the golden. `level` is "exact", "structure", "ops", "signature" or "cost", or
        of a capture "breaks"; `constants` is "exact", "close" or "shape". With `commutative`, the order of operands of
        commutative operators does not count; with `normalize`, neither does the spelling of an operator. `meta` names
        metadata of nodes that is part of the golden, such as ("partition_tag",). `code` is "always", or "exact" for a
        golden that holds the generated code only where the level is exact. `budget` says by how much costs may differ
        at level "cost", such as {"flops": "+1%", "params": 0}. `frontend` says how a module becomes a graph:
        "symbolic", or with example inputs "export", "dynamo", "aot" or "make_fx". A wrong value is refused when it is
        compared.
        """
        request = GoldenRequest(
            name,
            level,
            example_inputs,
            example_kwargs,
            constants,
            commutative,
            normalize,
            meta,
            code=code,
            budget=budget,
            frontend=frontend,
        )
        return GoldenExpectation(self._comparison, request)

    def inline(
        self,
        text: str | None = None,
        /,
        *,
        level: Level | None = None,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
        constants: ConstantForm | None = None,
        commutative: bool | None = None,
        normalize: bool | None = None,
        meta: Sequence[str] = (),
        budget: Budget | None = None,
        frontend: Frontend | None = None,
    ) -> InlineExpectation:
        """Return a golden that stands in the test itself: `assert subject == fx_golden.inline(\"\"\" ... \"\"\")`.

        Begin with `fx_golden.inline()`; --fx-update-golden writes the text into the source when the run has ended. The
        options are those of `fx_golden(...)`. Its `check(subject)` goes on after a mismatch. Raises GateError for what
        is no text, and fails the test if nothing is compared with it.
        """
        __tracebackhide__ = True
        if text is not None and not isinstance(text, str):
            raise GateError(
                f"fx_golden.inline takes the text of a golden in quotes, got {type(text).__name__}; write "
                "`fx_golden.inline()`, and have the text written by pytest --fx-update-golden"
            )
        from pytest_fxgraph.gate.inline_comparison import InlineComparison

        comparison = InlineComparison(self._item, self._attempt, sys._getframe(1), text)
        request = GoldenRequest(
            level=level,
            example_inputs=example_inputs,
            example_kwargs=example_kwargs,
            constants=constants,
            commutative=commutative,
            normalize=normalize,
            meta=meta,
            budget=budget,
            frontend=frontend,
        )
        return InlineExpectation(comparison, request, self._attempt)

    def check(
        self,
        subject: object,
        *,
        name: str | None = None,
        level: Level | None = None,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
        constants: ConstantForm | None = None,
        commutative: bool | None = None,
        normalize: bool | None = None,
        meta: Sequence[str] = (),
        code: CodeForm | None = None,
        budget: Budget | None = None,
        frontend: Frontend | None = None,
    ) -> bool:
        """Compare as `==` does, but go on after a mismatch; the test fails at its end, with all of them.

        Takes the options of `fx_golden(...)`; returns whether the subject matched. Raises only for a subject that
        cannot be written down, or an option with a wrong value.
        """
        __tracebackhide__ = True
        request = GoldenRequest(
            name,
            level,
            example_inputs,
            example_kwargs,
            constants,
            commutative,
            normalize,
            meta,
            code=code,
            budget=budget,
            frontend=frontend,
        )
        error = self._comparison.compare(subject, request)
        if error is None:
            return True
        self._attempt.fail_later(str(error), sys._getframe(1))
        return False


def foreign_comparison_message(op: str, left: object, right: object) -> list[str] | None:
    """Return the lines that explain a comparison answered by the subject's class; None for all other comparisons."""
    if op not in ("==", "is", "in") or not any(isinstance(side, GoldenExpectation) for side in (left, right)):
        return None
    subject = right if isinstance(left, GoldenExpectation) else left
    return [
        f"{type(subject).__qualname__} {op} fx_golden",
        f"{type(subject).__qualname__} answered the comparison itself, so fx_golden was never asked;",
        "write `assert fx_golden == subject` or `fx_golden.check(subject)`",
    ]
