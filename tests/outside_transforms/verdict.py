"""The verdict on one transform."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytest_fxgraph import check_transform
from pytest_fxgraph.errors import GateError
from tests.outside_transforms.case import Case

DEFAULT, OPTION, MISSED, ACCEPTED, ACCUSED, BROKEN = (
    "by default",
    "by an option",
    "missed",
    "accepted",
    "accused",
    "broken",
)
GOOD = (DEFAULT, OPTION, ACCEPTED)


class Verdict(NamedTuple):
    """The fate of a transform, and the first line of the message."""

    kind: str
    message: str


def judge(case: Case, seed: int = 0) -> Verdict:
    """Run the check as its test would, and then with the option that the case needs."""
    try:
        return _judged(case, seed)
    except Exception as error:
        return Verdict(BROKEN, f"{type(error).__name__}: {error}")


def _judged(case: Case, seed: int) -> Verdict:
    message = refusal(case, {"seed": seed, **case.options})
    if case.is_right:
        return Verdict(ACCUSED, message) if message else Verdict(ACCEPTED, "")
    if message:
        return Verdict(DEFAULT, message)
    if case.needs and (message := refusal(case, {"seed": seed, **case.options, **case.needs})):
        return Verdict(OPTION, message)
    return Verdict(MISSED, "")


def refusal(case: Case, options: dict[str, Any]) -> str:
    """Return the message of the check, or nothing."""
    model = case.model().eval()
    try:
        check_transform(case.transform(model), model, case.inputs(), **options)
    except (AssertionError, GateError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""
