"""The verdict on one case."""

from __future__ import annotations

import contextlib
import io
from typing import NamedTuple

from fixtures.reach.torchvision_operators import define_missing_operators
from pytest_fxgraph.errors import GateError
from tests.clients.case import Case

CAUGHT, ACCUSED, MISSED, UNNAMED, BROKEN, ABSENT = "caught", "accused", "missed", "unnamed", "broken", "absent"


class Verdict(NamedTuple):
    """The fate of a case. The message of a caught harm is the line that has the case's words."""

    kind: str
    message: str


def judge(case: Case) -> Verdict:
    """Run the right recipe, which must pass, and the spoilt one, which must fail with the case's words."""
    missing = case.missing_wheel()
    if missing:
        return Verdict(ABSENT, missing)
    define_missing_operators()
    try:
        accusation = refusal(case, is_spoilt=False)
        if accusation:
            return Verdict(ACCUSED, accusation)
        message = refusal(case, is_spoilt=True)
    except Exception as error:
        return Verdict(BROKEN, f"{type(error).__name__}: {error}")
    if not message:
        return Verdict(MISSED, "")
    line = next((line.strip() for line in message.splitlines() if case.named in line), None)
    return Verdict(UNNAMED, message) if line is None else Verdict(CAUGHT, line)


def refusal(case: Case, *, is_spoilt: bool) -> str:
    """Return the message of the check, or nothing."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            case.trial(is_spoilt)
    except (AssertionError, GateError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
