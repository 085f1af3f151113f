"""A case: a pass, capture or recipe of another library on one of our models, right and spoilt."""

from __future__ import annotations

import functools
import importlib.util
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fixtures.catalog import CATALOG
from fixtures.models_to_lower import MODELS as MODELS_TO_LOWER
from fixtures.models_to_quantize import MODELS as MODELS_TO_QUANTIZE
from pytest_fxgraph import assert_equivalent, assert_graph_matches_golden, check_transform, ops
from tests.clients.dialects import Dialect, Pass, adapted, graph_in
from tests.clients.harm import Harm

# Why a message does not name a harm yet.
GAP_OF_SHAPES = "equal numbers in another shape count as the first difference"
GAP_OF_ROUNDING = "a rounding counts as the first difference, though a threshold was asked for"
GAP_OF_LENGTH = "the line of the message is cut before the operator"
GAP_OF_MASKS = "integers of a mask, which agree, count as the first difference"

# The module to import from each wheel.
MODULES = {
    "brevitas": "brevitas",
    "executorch": "executorch",
    "nncf": "nncf",
    "optimum-quanto": "optimum.quanto",
    "onnx2torch": "onnx2torch",
    "onnxscript": "onnxscript",
    "opt-einsum-fx": "opt_einsum_fx",
    "timm": "timm",
    "torchao": "torchao",
    "torchvision": "torchvision",
    "transformers": "transformers",
}


@dataclass(frozen=True)
class Case:
    """One trial of a foreign pass in one dialect.

    `trial(False)` must return; `trial(True)` must raise an error that has the words `named`.
    """

    library: str
    name: str
    dialect: str
    model: str
    check: str
    harm: str
    named: str
    trial: Callable[[bool], None]
    gap: str = ""  # why the message does not name the harm yet

    @property
    def identity(self) -> str:
        words = (self.library, self.name, self.dialect, self.model, self.check, self.harm)
        return re.sub(r"[^\w.]+", "_", "-".join(words).replace("`", ""))

    def missing_wheel(self) -> str | None:
        """Return the name of the wheel that is not installed, or None."""
        needed = [self.library, *(["executorch"] if self.dialect == "edge" else [])]
        return next((wheel for wheel in needed if not _is_installed(MODULES[wheel])), None)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package of a module is missing
        return False


CASES: list[Case] = []
Recipe = Callable[[nn.Module, tuple[Any, ...]], Any]


# Models that a library brings, by name; each is small and has random weights.
OUTSIDE: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}


def fixture_of(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a model in eval mode with its inputs; batch norms have statistics as a run would leave."""
    if name in OUTSIDE:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model, inputs = OUTSIDE[name]()
    elif name in CATALOG:
        model, inputs = CATALOG[name].build(), CATALOG[name].example_inputs()
    else:
        kind, make_inputs = {**MODELS_TO_QUANTIZE, **MODELS_TO_LOWER}[name]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model, inputs = kind(), make_inputs()
    generator = torch.Generator().manual_seed(0)
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            drawn = ((layer.running_mean, -0.5), (layer.running_var, 0.5), (layer.weight, 0.5), (layer.bias, -0.5))
            for values, low in drawn:
                if values is not None:
                    values.data.uniform_(low, low + 1, generator=generator)
    return model.eval(), inputs


def transform(
    library: str,
    name: str,
    model: str,
    step: Pass,
    harm: Harm,
    named: str,
    dialects: Sequence[Dialect],
    *,
    changes: bool = True,
    gap: str = "",
    **options: Any,
) -> None:
    """Enter a pass for `fx_transform`; the spoilt pass does the harm to the graph that the right pass made.

    With `changes=False` the pass leaves the graph of this model as it is.
    """
    for dialect in dialects:

        def trial(is_spoilt: bool, dialect: Dialect = dialect) -> None:
            module, inputs = fixture_of(model)
            applied = adapted(dialect, step)

            @functools.wraps(applied)  # the tool asks the first parameter of a pass for the form of graph
            def run(given: Any) -> Any:
                made = applied(given)
                return harm(given if made is None else made) if is_spoilt else made

            run.__name__ = name
            result = check_transform(run, graph_in(dialect, module, inputs), inputs, **options)
            assert result.difference.is_empty is not changes, f"{name} changes nothing in {model}"

        CASES.append(Case(library, name, dialect, model, "fx_transform", harm.text, named, trial, gap))


def equivalence(
    library: str,
    name: str,
    model: str,
    recipe: Recipe,
    harm: Harm,
    named: str,
    dialect: str,
    *,
    gap: str = "",
    **options: Any,
) -> None:
    """Enter a recipe that makes a graph of a model, for `fx_equivalence`."""

    def trial(is_spoilt: bool) -> None:
        module, inputs = fixture_of(model)
        made = recipe(module, inputs)
        assert_equivalent(fixture_of(model)[0], harm(made) if is_spoilt else made, inputs, **options)

    CASES.append(Case(library, name, dialect, model, "fx_equivalence", harm.text, named, trial, gap))


def golden(
    library: str,
    name: str,
    model: str,
    recipe: Recipe,
    harm: str | Harm,
    named: str,
    dialect: str,
    *,
    spoilt: Recipe | None = None,
    gap: str = "",
    **options: Any,
) -> None:
    """Enter a recipe for `fx_golden`: a second run matches the golden of the first one, the spoilt recipe does not."""

    def trial(is_spoilt: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "golden.yaml")
            assert_graph_matches_golden(recipe(*fixture_of(model)), path, update=True, **options)
            made = (spoilt if is_spoilt and spoilt else recipe)(*fixture_of(model))
            assert_graph_matches_golden(harm(made) if is_spoilt and isinstance(harm, Harm) else made, path, **options)

    text = harm.text if isinstance(harm, Harm) else harm
    CASES.append(Case(library, name, dialect, model, "fx_golden", text, named, trial, gap))


def operators(
    library: str,
    name: str,
    model: str,
    recipe: Recipe,
    query: Callable[[Any], None],
    harm: str,
    named: str,
    dialect: str,
    *,
    spoilt: Recipe,
) -> None:
    """Enter a recipe for `fx_ops`: the query holds after the right recipe, and fails after the spoilt one."""

    def trial(is_spoilt: bool) -> None:
        query(ops((spoilt if is_spoilt else recipe)(*fixture_of(model))))

    CASES.append(Case(library, name, dialect, model, "fx_ops", harm, named, trial))
