from __future__ import annotations

from wrapping import Net, Wrapped


def test_one_golden_serves_the_bare_and_the_wrapped_model(fx_golden):
    assert Net() == fx_golden(name="net")
    assert Wrapped(Net()) == fx_golden(name="net")
