from __future__ import annotations

import inspect

import pytest

from fxcore import errors
from fxcore.errors import FxError

FAMILY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", [kind for kind in FAMILY if kind is not FxError], ids=lambda kind: kind.__name__)
def test_every_error_is_an_fx_error_and_a_builtin_one(kind):
    builtin_bases = [base for base in kind.__mro__ if base.__module__ == "builtins" and base not in (Exception, object)]

    assert issubclass(kind, FxError)
    assert set(builtin_bases) - {BaseException}


def test_an_unknown_opcode_is_caught_as_torch_fx_raises_it():
    assert issubclass(errors.UnknownOpcodeError, NotImplementedError)
    assert issubclass(errors.UnknownOpcodeError, errors.CodeGenerationError)
