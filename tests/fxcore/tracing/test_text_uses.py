"""The use of a text: a message for people, an assertion, or anything else."""

from __future__ import annotations

import logging
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch

from fxcore.tracing.text_uses import ASSERTION, MESSAGE, is_percent_format, use_of_text

LOGGER = logging.getLogger(__name__)
FOUND: list[str | None] = []


class Asking:
    """A value that notes the use of each text that it is written into."""

    def __str__(self):
        FOUND.append(use_of_text(sys._getframe(1)))
        return "value"

    def __format__(self, spec):
        FOUND.append(use_of_text(sys._getframe(1)))
        return "value"


VALUE = Asking()


def raised():
    raise ValueError(f"bad {VALUE}")


def stored():
    text = f"a {VALUE}"
    return [text]


class Model:
    logger = LOGGER

    def log(self):
        self.logger.info(f"a {VALUE}")


def local_exception():
    kind = KeyError
    raise kind(f"bad {VALUE}")


def local_name():
    print = str.strip  # noqa: A001 - the name of a function that writes messages
    return print(f"a {VALUE}")


def enclosed_name():
    say = print

    def inner():
        say(f"a {VALUE}")

    inner()


class Sink:
    """An object with methods of its own under names of loggers, and others."""

    def info(self, text):
        return text

    def take(self, text):
        return text


SINK = Sink()
ADAPTER = logging.LoggerAdapter(LOGGER, {})


def jumped(flag=True):
    print((f"{VALUE}" if flag else "no") + "!")


def in_a_sum_with_a_method(tail="!"):
    print((f"{VALUE}" + tail).strip())


def before_sums(a=1, b=2):
    print(f"{VALUE}", a + b, a + b, a + b, a + b, (a + b).real)


def at_the_top_level():
    exec("text = f'{VALUE}'", {"VALUE": VALUE})


USES = {
    "sum with a method": (in_a_sum_with_a_method, [None]),
    "before sums": (before_sums, [MESSAGE]),
    "global name": (at_the_top_level, [None]),
    "product": (lambda: print(f"{VALUE}" * 2), [None]),
    "in a list": (lambda: print([f"{VALUE}"]), [None]),
    "argument of a call by name": (lambda: print(str(VALUE), end=""), [MESSAGE]),
    "local exception": (local_exception, [MESSAGE]),
    "local name": (local_name, [None]),
    "enclosed name": (enclosed_name, [MESSAGE]),
    "method of the user named like a logger's": (lambda: SINK.info(f"{VALUE}"), [None]),
    "method of the user": (lambda: SINK.take(f"{VALUE}"), [None]),
    "adapter": (lambda: ADAPTER.info(f"{VALUE}"), [MESSAGE]),
    "module logging": (lambda: logging.info(f"{VALUE}"), [MESSAGE]),
    "beside sums": (lambda: print(1 + len("ab"), f"a {VALUE}", -len("a"), (1, len("a"))), [MESSAGE]),
    "behind a part of a tuple": (lambda: print((f"{VALUE}", 1)), [None]),
    "starred": (lambda: print(*[f"{VALUE}"]), [None]),
    "argument of a logger": (lambda: LOGGER.info("%s", f"{VALUE}"), [MESSAGE]),
    "exception in a call": (lambda: Sink().take(ValueError(f"{VALUE}")), [MESSAGE]),
    "type": (lambda: str(f"{VALUE}"), [None]),
    "converted": (lambda: print(f"{VALUE!s}"), [MESSAGE]),
    "joined": (lambda: print("".join([f"{VALUE}"])), [None]),
    "after a jump": (jumped, [None]),
    "assertion": (lambda: torch._assert(True, f"bad {VALUE}, {VALUE:>3}"), [ASSERTION] * 2),
    "assertion by keyword": (lambda: torch._assert(True, message=f"bad {VALUE}"), [ASSERTION]),
    "format": (lambda: torch._assert(True, "bad {} {}".format(VALUE, VALUE)), [ASSERTION] * 2),  # noqa: UP032
    "percent": (lambda: torch._assert(True, "bad %s" % VALUE), [ASSERTION]),  # noqa: UP031
    "sum": (lambda: torch._assert(True, "bad " + str(VALUE) + "!"), [ASSERTION]),
    "print": (lambda: print(f"{VALUE}", VALUE), [MESSAGE] * 2),
    "warning": (lambda: warnings.warn(f"a {VALUE}", stacklevel=2), [MESSAGE]),
    "logging": (lambda: logging.getLogger(__name__).info(f"a {VALUE}"), [MESSAGE]),
    "logger": (lambda: LOGGER.info(f"a {VALUE}"), [MESSAGE]),
    "logger of a model": (lambda: Model().log(), [MESSAGE]),
    "exception": (raised, [MESSAGE]),
    "result": (lambda: f"a {VALUE}", [None]),
    "key": (lambda: {f"a {VALUE}": 1}, [None]),
    "index": (lambda: {"value": 1}[f"{VALUE}"], [None]),
    "argument": (lambda: {"value": 1}.get(f"{VALUE}"), [None]),
    "variable": (stored, [None]),
    "comparison": (lambda: f"{VALUE}" == "value", [None]),
    "method": (lambda: print(f"{VALUE}".strip()), [None]),
    "container": (lambda: print({f"{VALUE}": 1}), [None]),
    "inner call": (lambda: print(len(f"{VALUE}")), [None]),
}


@pytest.mark.filterwarnings("ignore:a value")
@pytest.mark.parametrize("name", USES)
def test_the_use_of_a_text(name):
    use, expected = USES[name]
    FOUND.clear()

    try:
        use()
    except (ValueError, KeyError):
        assert "exception" in name

    assert expected == FOUND


def test_the_operator_percent_is_told_from_other_ways_to_write_a_text():
    found = []

    class Noting:
        def __str__(self):
            found.append(is_percent_format(sys._getframe(1)))
            return "value"

    value = Noting()
    texts = ["a %s" % value, f"a {value}", "a {}".format(value), "a " + str(value)]  # noqa: UP031, UP032

    assert set(texts) == {"a value"}
    assert found == [True, False, False, False]


@pytest.mark.parametrize("module", ["logging", "logging.handlers", "warnings", "traceback"])
def test_texts_of_modules_that_write_messages_are_messages(module):
    assert use_of_text(SimpleNamespace(f_globals={"__name__": module})) == MESSAGE
