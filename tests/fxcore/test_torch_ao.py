"""torch.ao's FX quantization and pruning on fxcore, its imports swapped, compared with torch.ao as it is."""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import pickle
import pprint
import re

import pytest
import torch
import torch.ao.quantization.quantize_fx  # before backend_config, which reaches its own parts through it
from torch import nn
from torch.ao.quantization import backend_config as backends
from torch.ao.quantization import (
    default_dynamic_qconfig,
    default_qconfig,
    float_qparams_weight_only_qconfig,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
)
from torch.ao.quantization.qconfig_mapping import QConfigMapping

import fxcore
from fixtures import swapped_ao
from fixtures.models_to_quantize import MODELS, Attention, Linears, LongShortTerm, model_and_inputs

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def of_torch(module):
    return importlib.import_module(f"torch.ao.{module}")


LIBRARIES = {"torch.fx": of_torch, "fxcore": swapped_ao.load}


@pytest.fixture(autouse=True)
def _one_engine(monkeypatch):
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = engine


SAMPLE = ("linears", "joins", "structures")  # of the models, in every run


def plain(value):
    """Return a value in a form that can be compared: numbers in full, objects as their text without addresses."""
    if isinstance(value, torch.Tensor):
        numbers = value.dequantize() if value.is_quantized else value
        return str(value.dtype), value.is_quantized and str(value.qscheme()), str(numbers.tolist())
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, map(plain, value)))  # in an order that does not follow addresses
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    return re.sub(r" at 0x[0-9a-f]+", "", str(value).replace(f"{swapped_ao.NAME}.", "torch.ao."))


def seen(module, inputs):
    """Return graph, code, state, metadata and result of a quantized module, in forms that can be compared."""
    torch.manual_seed(1)
    result = module(*inputs)
    metadata = [sorted(node.meta) for node in module.graph.nodes], sorted(map(str, module.meta))
    return plain([module.graph, module.code.strip(), module.state_dict(), metadata, result, module])


def weights_only(mapping):
    for kind in (nn.Embedding, nn.EmbeddingBag):
        mapping.set_object_type(kind, float_qparams_weight_only_qconfig)
    return mapping


def prepared(load, name, **settings):
    """Return a model made ready for static quantization, which has seen its inputs, and these."""
    model, inputs = model_and_inputs(name)
    mapping = weights_only(get_default_qconfig_mapping("fbgemm"))
    module = load("quantization.quantize_fx").prepare_fx(model, mapping, inputs, **settings)
    module(*inputs)
    return module, inputs


def quantized(load, name):
    module, inputs = prepared(load, name)
    return module, load("quantization.quantize_fx").convert_fx(copy.deepcopy(module)), inputs


def same_in_both(program):
    expected, obtained = (program(load) for load in LIBRARIES.values())
    # Line by line: of large values pytest shows the beginning only.
    assert pprint.pformat(obtained, width=200).splitlines() == pprint.pformat(expected, width=200).splitlines()


@pytest.mark.sampled(every=3, start=1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SAMPLE else [pytest.mark.long]) for name in MODELS]
)
def test_static_quantization(name):
    def program(load):
        module, inputs = prepared(load, name)
        converted = load("quantization.quantize_fx").convert_fx(copy.deepcopy(module))
        return seen(module, inputs), seen(converted, inputs)

    same_in_both(program)


@pytest.mark.sampled(every=2, start=1)
@pytest.mark.parametrize(
    ("name", "convert"),
    [("long short-term", "convert_to_reference_fx"), ("convolutions", "_convert_to_reference_decomposed_fx")],
)
def test_reference_models(name, convert):
    def program(load):
        module, inputs = prepared(load, name)
        return seen(getattr(load("quantization.quantize_fx"), convert)(module), inputs)

    same_in_both(program)


@pytest.mark.parametrize(
    "backend", ["executorch", *(pytest.param(name, marks=pytest.mark.long) for name in ("onednn", "tensorrt"))]
)
def test_backends(backend):
    def program(load):
        config = getattr(backends, f"get_{backend}_backend_config")()
        module, inputs = prepared(load, "convolutions", backend_config=config)
        converted = load("quantization.quantize_fx").convert_to_reference_fx(module, backend_config=config)
        return seen(converted, inputs)

    same_in_both(program)


@pytest.mark.parametrize("name", ["convolutions", "joins"])
def test_quantization_aware_training(name):
    def program(load):
        fx = load("quantization.quantize_fx")
        model, inputs = model_and_inputs(name, training=True)
        module = fx.prepare_qat_fx(model, get_default_qat_qconfig_mapping("fbgemm"), inputs)
        torch.manual_seed(1)
        module(*inputs).sum().backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        return plain(gradients), seen(fx.convert_fx(module.eval()), inputs)

    same_in_both(program)


@pytest.mark.parametrize("name", ["recurrent", "embeddings"])
def test_dynamic_quantization(name):
    def program(load):
        fx = load("quantization.quantize_fx")
        model, inputs = model_and_inputs(name)
        mapping = weights_only(QConfigMapping().set_global(default_dynamic_qconfig))
        return seen(fx.convert_fx(fx.prepare_fx(model, mapping, inputs)), inputs)

    same_in_both(program)


@pytest.mark.parametrize("name", ["nested", "one dimension"])
def test_fusion(name):
    def program(load):
        model, inputs = model_and_inputs(name)
        return seen(load("quantization.quantize_fx").fuse_fx(model), inputs)

    same_in_both(program)


def test_what_comes_out_is_of_fxcore():
    module, converted, _ = quantized(swapped_ao.load, "linears")

    assert isinstance(module, fxcore.GraphModule)
    assert isinstance(converted, fxcore.GraphModule)


# Equalization.


@pytest.mark.slow
def test_equalization():
    def program(load):
        fx, equalize = load("quantization.quantize_fx"), load("quantization.fx._equalize")
        model, inputs = model_and_inputs("linears")
        equalization = QConfigMapping().set_module_name("second", equalize.default_equalization_qconfig)
        mapping = get_default_qconfig_mapping("fbgemm")
        module = fx.prepare_fx(model, mapping, inputs, _equalization_config=equalization)
        module(*inputs)
        reference = equalize._convert_equalization_ref(copy.deepcopy(module))
        return seen(module, inputs), seen(reference, inputs), seen(fx.convert_fx(module), inputs)

    same_in_both(program)


@pytest.mark.slow
@pytest.mark.long
def test_layers_are_chosen_for_equalization_by_their_noise():
    def program(load):
        equalize = load("quantization.fx._equalize")
        module, converted, inputs = quantized(load, "linears")
        noise = equalize.get_layer_sqnr_dict(copy.deepcopy(module), converted, inputs[0])
        chosen = equalize.get_equalization_qconfig_dict(noise, 1)
        return plain([noise, chosen.to_dict() if hasattr(chosen, "to_dict") else chosen])

    same_in_both(program)


# The numeric suite.


@pytest.mark.slow
def test_the_numeric_suite_compares_weights():
    def program(load):
        module, converted, _ = quantized(load, "convolutions")
        return plain(load("ns._numeric_suite_fx").extract_weights("float", module, "quantized", converted))

    same_in_both(program)


def distances(load, results):
    suite, functions = load("ns._numeric_suite_fx"), load("ns.fx.utils")
    for name in ("compute_sqnr", "compute_normalized_l2_error", "compute_cosine_similarity"):
        suite.extend_logger_results_with_comparison(results, "float", "quantized", getattr(functions, name), name)
    return plain(results)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linears"])
def test_the_numeric_suite_adds_loggers(name):
    def program(load):
        suite = load("ns._numeric_suite_fx")
        module, converted, inputs = quantized(load, name)
        both = suite.add_loggers("float", module, "quantized", converted, suite.OutputLogger, should_log_inputs=True)
        looks = [seen(each, inputs) for each in both]
        return looks, distances(load, suite.extract_logger_info(*both, suite.OutputLogger, "quantized"))

    same_in_both(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolutions"])
def test_the_numeric_suite_adds_shadows(name):
    def program(load):
        suite = load("ns._numeric_suite_fx")
        module, converted, inputs = quantized(load, name)
        shadowed = suite.add_shadow_loggers("float", module, "quantized", converted, suite.OutputLogger)
        look = seen(shadowed, inputs)
        return look, distances(load, suite.extract_shadow_logger_info(shadowed, suite.OutputLogger, "quantized"))

    same_in_both(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linears", "nested"])
def test_several_settings_shadow_one_model(name):
    def program(load):
        suite, several = load("ns._numeric_suite_fx"), load("ns.fx.qconfig_multi_mapping").QConfigMultiMapping()
        model, inputs = model_and_inputs(name)
        several.set_global([default_qconfig, default_dynamic_qconfig, None])
        module = suite.prepare_n_shadows_model(model, inputs, several, backends.get_native_backend_config())
        looks = [seen(module, inputs)]
        suite.loggers_set_enabled(module, False)
        module = suite.convert_n_shadows_model(module)
        suite.loggers_set_enabled(module, True)
        suite.loggers_set_save_activations(module, True)
        looks.append(seen(module, inputs))
        results = suite.extract_results_n_shadows_model(module)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            suite.print_comparisons_n_shadows_model(results)
        return looks, plain(results), plain(printed.getvalue())

    same_in_both(program)


@pytest.mark.slow
def test_one_setting_is_shadowed_with_the_error_that_spreads():
    def program(load):
        suite = load("ns._numeric_suite_fx")
        mapping, backend = QConfigMapping().set_global(default_qconfig), backends.get_native_backend_config()
        model, inputs = model_and_inputs("linears")
        module = suite._prepare_n_shadows_add_loggers_model(model, inputs, mapping, backend)
        looks = [seen(module, inputs)]
        module = suite.convert_n_shadows_model(module)
        looks.append(seen(module, inputs))
        weights = suite._n_shadows_compare_weights(*model_and_inputs("linears"), mapping, backend)
        return looks, plain(suite.extract_results_n_shadows_model(module)), plain(weights)

    same_in_both(program)


# Model reports.


@pytest.mark.parametrize("name", ["joins", "linears"])
def test_model_reports(name):
    def program(load):
        detectors = load("quantization.fx._model_report.detector")
        reports = load("quantization.fx._model_report.model_report")
        module, inputs = prepared(load, name)
        report = reports.ModelReport(
            module,
            [  # a list, where torch asks for a set: its order would differ from run to run
                # The default is the engine at the time of the import, which is not the same for both libraries.
                detectors.PerChannelDetector(torch.backends.quantized.engine),
                detectors.DynamicStaticDetector(),
                detectors.InputWeightEqualizationDetector(0.5),
                detectors.OutlierDetector(reference_percentile=0.9),
            ],
        )
        observed = report.prepare_detailed_calibration()
        looks = [seen(observed, inputs)]
        found = report.generate_model_report(remove_inserted_observers=False)
        tables = report.generate_visualizer().generate_filtered_tables()
        mappings = report.generate_qconfig_mapping().to_dict(), report.generate_equalization_mapping().to_dict()
        report.generate_model_report(remove_inserted_observers=True)
        return [*looks, seen(observed, inputs)], plain(found), plain(tables), plain(mappings)

    same_in_both(program)


# Settings of one's own, and what is kept.


class Reshaping(nn.Module):
    def forward(self, x):
        return x.reshape(-1, 4)


class ObservedReshaping(Reshaping):
    @classmethod
    def from_float(cls, module):
        observed = cls()
        observed.qconfig = module.qconfig
        return observed


class QuantizedReshaping(Reshaping):
    @classmethod
    def from_observed(cls, module):
        return cls()


class Configured(nn.Module):
    """Layers that a setting names each in a way of its own."""

    note = "kept"

    def __init__(self):
        super().__init__()
        self.first, self.reshaping, self.last = nn.Linear(4, 4), Reshaping(), nn.Linear(4, 4)
        self.alone, self.opaque = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), LoopOfItsOwn()

    def forward(self, x):
        return self.last(self.opaque(self.alone(self.reshaping(self.first(x)))))


class LoopOfItsOwn(nn.Module):
    def forward(self, x):
        return x if x.shape[0] > 0 else x.relu()


@pytest.mark.slow
def test_custom_standalone_and_untraceable_modules():
    def program(load):
        fx, settings = load("quantization.quantize_fx"), load("quantization.fx.custom_config")
        torch.manual_seed(0)
        model, inputs, mapping = Configured().eval(), (torch.randn(2, 4),), get_default_qconfig_mapping("fbgemm")
        custom = (
            settings.PrepareCustomConfig()
            .set_standalone_module_name("alone", mapping, inputs, None, None)
            .set_float_to_observed_mapping(Reshaping, ObservedReshaping)
            .set_non_traceable_module_classes([LoopOfItsOwn])
            .set_preserved_attributes(["note"])
            .set_input_quantized_indexes([])
            .set_output_quantized_indexes([])
        )
        module = fx.prepare_fx(model, mapping, inputs, prepare_custom_config=custom)
        looks = [seen(module, inputs)]
        converting = (
            settings.ConvertCustomConfig()
            .set_observed_to_quantized_mapping(ObservedReshaping, QuantizedReshaping)
            .set_preserved_attributes(["note"])
        )
        converted = fx.convert_fx(module, convert_custom_config=converting)
        assert (module.note, converted.note) == ("kept", "kept")
        return [*looks, seen(converted, inputs)], plain(custom.to_dict()["preserved_attributes"])

    same_in_both(program)


def loaded(data):
    return torch.load(io.BytesIO(data), weights_only=False)


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linears", pytest.param("embeddings", marks=pytest.mark.long)])
def test_what_is_quantized_is_copied_and_saved(name):
    def program(load):
        looks = []
        for module in (both := quantized(load, name))[:2]:
            copies = [copy.deepcopy(module), copy.deepcopy(module)]
            copies[1].load_state_dict(loaded(saved(module.state_dict())))
            looks += [seen(each, both[2])[:-1] for each in copies]  # torch.fx's copies have their modules sorted
        return looks

    same_in_both(program)
    _, module, inputs = quantized(swapped_ao.load, name)
    for copied in (pickle.loads(pickle.dumps(module)), loaded(saved(module))):
        assert (plain(copied(*inputs)), copied.code) == (plain(module(*inputs)), module.code)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linears"])
def test_what_is_quantized_is_scripted(name):
    def program(load):
        *_, converted, inputs = quantized(load, name)
        scripted = torch.jit.script(converted)
        return scripted.code, plain(scripted(*inputs)), plain(torch.jit.trace(converted, inputs)(*inputs))

    same_in_both(program)


# Pruning.


def pruned(load, file, pruner, model, config, settings):
    """Prune a model by its structure, and return how it looks and what it computes then."""
    sparsifier = getattr(load(f"pruning._experimental.pruner.{file}"), pruner)(settings)
    sparsifier.prepare(model, config)
    sparsifier.enable_mask_update = True
    sparsifier.step()
    graph_module = sparsifier.prune()
    return sparsifier, graph_module


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, bias=False), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.MaxPool2d(2), nn.ReLU()
        )
        self.linears = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, x):
        return self.linears(torch.flatten(self.features(x), 1))


@pytest.mark.parametrize("pruner", ["SaliencyPruner", "FPGMPruner"])
def test_pruning_by_structure(pruner):
    def program(load):
        torch.manual_seed(0)
        model, x = TwoHeads(), torch.randn(2, 3, 6, 6)
        file = {"SaliencyPruner": "saliency_pruner", "FPGMPruner": "FPGM_pruner"}[pruner]
        config = [{"tensor_fqn": f"{name}.weight"} for name in ("features.0", "linears.0")]
        settings = {"sparsity_level": 0.5}
        if pruner == "FPGMPruner":
            settings = 0.5
        _, module = pruned(load, file, pruner, model, config, settings)
        return seen(module, (x,))

    same_in_both(program)


def test_pruning_of_recurrent_layers():
    def program(load):
        torch.manual_seed(0)
        model, config = LongShortTerm(), [{"tensor_fqn": "lstm.weight_ih_l0"}, {"tensor_fqn": "lstm.weight_hh_l0"}]
        settings = {"sparsity_level": 0.5}
        _, module = pruned(load, "lstm_saliency_pruner", "LSTMSaliencyPruner", model, config, settings)
        return plain([module.graph, module.code, module.state_dict()])

    same_in_both(program)


def test_models_are_traced_with_the_tracer_of_the_quantization():
    def program(load):
        tracer = load("quantization.fx.tracer").QuantizationTracer(["attention"], [Linears])
        graph = tracer.trace(Attention())
        return str(graph), plain(tracer.node_name_to_scope)

    same_in_both(program)
