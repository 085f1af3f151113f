"""What the models of the zoo cost, against what others count and measure."""

from __future__ import annotations

import statistics
import timeit

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import fxcore
from fixtures.catalog import CATALOG, real_models
from fxcore import interop
from fxcore.transforms.analysis.costs import graph_costs
from fxcore.transforms.analysis.profile import profile

# Not exported: they look at values, or give what torch.export does not know.
NOT_EXPORTED = {
    *("branches_on_value", "crf", "dataclass_output", "esm2", "takes_numbers", "tensor_attributes"),
    "wrapped_functions",
}
MODELS = [each for each in CATALOG.values() if each.name not in NOT_EXPORTED]


def sample(models, every):
    return [
        pytest.param(each, id=each.name, marks=[pytest.mark.long] if number % every or "long" in each.traits else [])
        for number, each in enumerate(models)
    ]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("model", sample(MODELS, 20))
def test_products_of_every_model_are_those_of_torchs_counter(model):
    if model.requires:
        pytest.importorskip(model.requires)
    inputs, keywords = model.example_inputs(), dict(model.example_kwargs())
    program = torch.export.export(model.build().eval(), inputs, keywords).run_decompositions()
    flat = [each for each in pytree.tree_leaves((inputs, keywords)) if isinstance(each, torch.Tensor)]
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        program.module()(*inputs, **keywords)

    costs = graph_costs(interop.from_torch(program), *flat, propagation="real")

    counted = [node for node in costs.nodes if getattr(node.node.target, "overloadpacket", None) in flop_registry]
    assert sum(node.cost.flops for node in counted) == counter.get_total_flops()
    assert costs.uncounted == ()


@pytest.fixture
def _one_thread():
    """Threads that wait for a core which others use make times that mean nothing."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.long
@pytest.mark.usefixtures("_one_thread")
@pytest.mark.parametrize("model", sample(real_models(long=True), 1))
def test_the_parts_of_a_profile_make_up_the_whole_run_of_every_real_model(model):
    if model.requires:
        pytest.importorskip(model.requires)
    traced, inputs = fxcore.symbolic_trace(model.build().eval()), model.example_inputs()
    ratios = []
    with torch.no_grad():
        for _ in range(5):  # in turn: the machine has other things to do as well
            total = profile(traced, *inputs, warmup=1, repeats=10).total
            ratios.append(total / statistics.median(timeit.repeat(lambda: traced(*inputs), number=1, repeat=10)))

    assert statistics.median(ratios) == pytest.approx(1, rel=0.1)
