from __future__ import annotations

import sys

from fxcore.bytecode import is_assertion, unpacked_length

ASSERTIONS_AND_OTHERS = """
assert value
assert value, f"a message about {value}"
if value:
    pass
negated = not value
both = value and 1
"""


class Asked:
    """Notes what the code that iterates it, or asks for its truth, is about to do."""

    def __init__(self):
        self.answers = []

    def __iter__(self):
        self.answers.append(unpacked_length(sys._getframe(1)))
        return iter(range(self.answers[-1] or 1))

    def __bool__(self):
        self.answers.append(is_assertion(sys._getframe(1)))
        return True


def test_unpacking_into_names_is_told_from_other_iteration():
    value = Asked()

    _a, _b = value
    (_c, _d, _e), _f = value, 1
    _g, *_h = value
    for _i in value:
        pass
    list(value)

    assert value.answers == [2, 3, None, None, None]


def test_an_assertion_is_told_from_other_questions():
    value = Asked()

    # Run as text: pytest rewrites the asserts of a test module.
    exec(ASSERTIONS_AND_OTHERS, {"value": value})

    assert value.answers == [True, True, False, False, False]
