"""The graph of every small model, and of some real ones, stands in a golden file that people have read."""

from __future__ import annotations

import pytest

from fixtures.catalog import CATALOG, small_models

# Small enough to be reviewed line by line; the larger ones are compared with torch.fx instead.
REAL = ("resnet10", "mobilenetv2")


def test_the_graph_of_a_small_model_is_its_golden(model, fx_golden):
    inputs = None if model.example_kwargs() else model.example_inputs()

    assert model.build().eval() == fx_golden(example_inputs=inputs)


def test_the_graph_of_a_real_model_is_its_golden(model, fx_golden):
    pytest.importorskip(model.requires)

    assert model.build().eval() == fx_golden(example_inputs=model.example_inputs())


def pytest_generate_tests(metafunc):
    """Parametrise by the catalog, so that a model added there has its golden asked for."""
    chosen = small_models() if "small" in metafunc.function.__name__ else [CATALOG[name] for name in REAL]
    metafunc.parametrize("model", chosen, ids=str)
