from __future__ import annotations

import cmath

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import FxError, TraceCallError
from fxcore.tracing.refused_calls import explained, place_of, place_text

table = torch.ones(4, 4)

HOW_TO_KNOW = (
    r"pass the value as a tensor, fix the input that it comes from with concrete_args, or make the call in a leaf"
)
REFUSED = {
    "sizes": (
        lambda x, n: torch.zeros(n, 3),
        r"zeros\(\).*as the first of several sizes.*as one tuple, zeros\(\(n, 3\)\)",
    ),
    "an attribute": (lambda x, n: torch.zeros(x.shape[0], 3), r"zeros\(\) does not take a proxy as the first"),
    "sizes of a method": (lambda x, n: table.expand(n, 4), r"expand\(\).*as one tuple, expand\(\(n, 3\)\)"),
    "sizes of a new tensor": (lambda x, n: table.new_ones(n, 4), r"new_ones\(\) does not take a proxy as the first"),
    "a constructor": (lambda x, n: torch.Tensor(n, 2), r"new\(\) of torch takes no proxy as one of its arguments"),
    "a slice": (lambda x, n: table[:n], r"A slice of a tensor .* Take torch\.narrow\(tensor, dim, start, length\)"),
    "a range": (lambda x, n: [x for _ in range(n)], r"A plain value is needed here"),
    "int": (lambda x, n: int(n), r"^int\(\) argument must be (.|\n)*A plain value is needed here"),
    "float": (lambda x, n: float(n), r"A plain value is needed here"),
    "an index": (lambda x, n: [1, 2][n], r"list indices must be integers (.|\n)*A plain value is needed here"),
    "mathematics": (lambda x, n: cmath.sqrt(n), r"A plain value is needed here"),
    "torch.tensor": (lambda x, n: torch.tensor(n), r"look at the value(.|\n)*torch\.full\(\(\), value\)"),
    "torch.Size": (lambda x, n: torch.Size([n]), r"A plain value is needed here"),
}


@pytest.mark.parametrize(("function", "words"), REFUSED.values(), ids=REFUSED)
def test_a_call_that_refuses_a_proxy_is_explained(function, words):
    class Inner(nn.Module):
        def forward(self, x, n):
            return function(x, n)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x, n):
            return self.inner(x, n)

    with pytest.raises(TraceCallError, match=words) as caught:
        fxcore.symbolic_trace(Outer())

    message, _, advice = str(caught.value).partition("\n")
    assert isinstance(caught.value, FxError)
    assert isinstance(caught.value, TypeError)
    assert message.startswith(str(caught.value.__cause__).partition("\n")[0])
    assert f" at {__file__}:{function.__code__.co_firstlineno}: " in message
    assert message.endswith("(in module 'inner')")
    assert "fxcore.wrap()" in advice or "as one tuple" in advice


def test_the_message_says_which_argument_where_torch_does():
    def narrow(x):
        return (_ for _ in ()).throw(TypeError("narrow(): argument 'length' (position 4) must be int, not Proxy"))

    with pytest.raises(TraceCallError, match=r"narrow\(\) of torch takes no proxy as its argument 'length'"):
        fxcore.symbolic_trace(narrow)


def raising(x):
    raise TypeError("no Proxy, please")


def takes_two(x, y):
    return x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raising, "^no Proxy, please$"),
        (lambda x: takes_two(x), r"^takes_two\(\) missing 1 required positional argument: 'y'$"),
        (lambda x: torch.relu(x, 1, 2), "relu"),
        (lambda x: len(1) + x, r"^object of type 'int' has no len\(\)$"),
    ],
    ids=["raised by the user", "a call of the user's", "too many arguments", "no proxy"],
)
def test_what_no_proxy_caused_is_left_as_it_is(function, words):
    with pytest.raises(TypeError, match=words) as caught:
        fxcore.symbolic_trace(function)

    assert type(caught.value) is TypeError


def test_traced_code_may_catch_it():
    def tries(x):
        try:
            return torch.zeros(x, 3)
        except TypeError:
            return torch.zeros((x, 3))

    assert "torch.zeros((x, 3))" in fxcore.symbolic_trace(tries).code


def test_an_error_that_nobody_raised_and_an_error_of_this_library_are_left_as_they_are():
    said = "zeros(): argument 'size' must be tuple of ints, not Proxy"

    class Refused(FxError, TypeError): ...

    def traced(error):
        try:
            iter(error)  # a function in C raises, so that no `raise` of the user explains it
        except TypeError as unrelated:
            return error.with_traceback(unrelated.__traceback__)

    assert explained(TypeError(said), "") is None
    assert explained(traced(Refused(said)), "") is None
    assert "zeros() does not take a proxy as the first of several sizes" in str(explained(traced(TypeError(said)), ""))


@pytest.mark.parametrize(
    ("said", "has_proxy", "words"),
    [
        (
            "new(): argument 'size' must be tuple of ints, not Proxy",
            False,
            "new() of torch takes no proxy as its argum",
        ),
        (
            "narrow() takes 4 positional arguments, not Proxy",
            False,
            "narrow() of torch takes no proxy as one of its arg",
        ),
        ("gumbel_softmax(): argument 'tau' must be float, not Proxy", False, "A plain value is needed here"),
        ("nobody(): argument 'x' must be int, not Attribute", False, "A plain value is needed here"),
        ("zeros() received an invalid combination of arguments", True, "zeros() does not take a proxy as the first of"),
        ("zeros() received an invalid combination of arguments", False, None),
        ("zeros(): argument 'size' must be tuple of ints, not Proxy", False, "zeros() does not take a proxy as the fi"),
        ("slice indices must be integers or None", True, "A slice of a tensor that is known while tracing"),
        ("slice indices must be integers or None", False, None),
        ("object has no attribute '__cuda_array_interface__'", True, "torch.tensor() and torch.as_tensor() look at"),
        ("object has no attribute '__cuda_array_interface__'", False, None),
        ("unsupported operand", True, None),
        ("no Proxys", True, None),
    ],
)
def test_a_refusal_has_the_reason_that_its_words_tell(said, has_proxy, words):
    proxy = fxcore.Proxy(fxcore.Graph().placeholder("x"))

    def refused(values):
        raise TypeError(f"{said}\nmore")

    file, name = torch.__file__, "refused"  # an error that a user raises explains itself
    code = refused.__code__.replace(co_filename=file, co_name=name)
    try:
        type(refused)(code, {}, name, None, refused.__closure__)([proxy if has_proxy else 1])
    except TypeError as error:
        obtained = explained(error, "")

    assert (obtained is None) == (words is None)
    if words is not None:
        assert str(obtained).startswith(f"{said} at {__file__}:")
        assert str(obtained).partition("\n")[2].startswith(words)


def test_an_error_from_nowhere_has_no_place():
    assert place_of(TypeError("bad")) == ("", 0, "")
    assert place_text(TypeError("bad"), "") == ""
    assert place_text(TypeError("bad"), "inner") == " (in module 'inner')"
