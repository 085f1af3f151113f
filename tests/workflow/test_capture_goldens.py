"""The walk of a golden of a capture: written, matches, a break more, a break fewer; and the other frontends."""

from __future__ import annotations

import json
import linecache
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
from fixtures.torch_versions import TORCH

TESTS = """
import os, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        {first}
        return x.relu()

X = torch.ones(2, 4)

def test_capture(fx_capture, fx_golden):
    assert fx_capture(Net(), X) == fx_golden

def test_breaks(fx_golden):
    assert Net() == fx_golden(frontend="dynamo", level="breaks", example_inputs=X)
"""
EXPORTED = """
import pytest, torch
from torch import nn

X = torch.ones(2, 4)

def test_export(fx_golden):
    assert nn.Linear(4, 4) == fx_golden(frontend="export", example_inputs=X)

@pytest.mark.fx(frontend="make_fx")
def test_make_fx(fx_golden):
    assert nn.Linear(4, 4) == fx_golden(example_inputs=X)

def test_ops(fx_ops):
    assert fx_ops(nn.Linear(4, 4), frontend="export", example_inputs=X).count("aten.linear.default") == 1

@pytest.mark.fx(frontend="aot")
def test_ops_of_a_marker(fx_ops):
    assert fx_ops(nn.Linear(4, 4), example_inputs=X).count("aten.addmm.default") == 1

def test_ops_behind_a_marker(fx_ops):
    assert fx_ops(nn.Linear(4, 4)).count(torch.nn.functional.linear) == 1

def test_cost(fx_golden):
    assert nn.Linear(4, 4) == fx_golden(frontend="dynamo", level="cost", example_inputs=X)

def test_equivalence(fx_equivalence):
    fx_equivalence(nn.Linear(4, 4), X, frontend="export")

def test_exported_program(fx_golden):
    assert torch.export.export(nn.Linear(4, 4), (X,)) == fx_golden
"""

# Hypothesis would be imported anew by each run, which takes two seconds.
_WITHOUT = [part for name in ("randomly", "logging", "hypothesispytest") for part in ("-p", f"no:{name}")]


def run(pytester, *options):
    return pytester.runpytest_inprocess(*_WITHOUT, *options)


def test_a_golden_of_a_capture_is_walked_through(pytester):
    pytester.makepyfile(test_net=TESTS.format(first='print("first")'))
    run(pytester, "--fx-update-golden").assert_outcomes(passed=2)
    text = pytester.path.joinpath("golden/test_net/test_capture.yaml").read_text(encoding="utf-8")
    assert '  break: builtin (print) in forward: print("first")' in text
    assert "self.linear.weight" in text

    pytester.makepyfile(test_net="\n\n" + TESTS.format(first='print("first")'))
    run(pytester).assert_outcomes(passed=2)

    pytester.makepyfile(test_net=TESTS.format(first="pass"))
    better = run(pytester)
    better.assert_outcomes(failed=2)
    better.stdout.fnmatch_lines(
        ["*test_capture.yaml does not match: one graph break fewer, which is better: accept it: builtin (print)*"]
    )


def test_other_frontends_have_goldens_of_one_graph(pytester):
    pytester.makepyfile(test_net=EXPORTED)

    run(pytester, "--fx-update-golden").assert_outcomes(passed=8)
    run(pytester, "--fx-frontend", "export", "-k", "test_export").assert_outcomes(passed=2, deselected=6)

    exported, program, made = (
        pytester.path.joinpath(f"golden/test_net/test_{name}.yaml").read_text(encoding="utf-8")
        for name in ("export", "exported_program", "make_fx")
    )
    assert exported == program
    # A slice that takes everything: torch 2.6 exports it, and torch 2.13 leaves it out.
    sliced = re.sub(
        r"( *)%linear = aten\.linear\.default\((%\w+)",
        r"\1%slice_1 = aten.slice.Tensor(\2, 0, 0, 9223372036854775807)\n\1%linear = aten.linear.default(%slice_1",
        exported,
    )
    pytester.path.joinpath("golden/test_net/test_export.yaml").write_text(sliced, encoding="utf-8")
    remark = (
        "if the model is the same, torch * exports this operator otherwise: record a variant with pytest --fx-update-go"
    )
    result = run(pytester, "-k", "test_export and not program")
    assert fnmatch(result.stdout.str(), f"*{remark}*") is (TORCH >= (2, 13))
    cost = pytester.path.joinpath("golden/test_net/test_cost.yaml").read_text(encoding="utf-8")
    assert "total: flops=64, " in cost
    assert "  graph_0: flops=64, " in cost
    assert "= aten.addmm.default(" in made


def test_a_frontend_without_inputs_and_a_trace_that_fails_say_what_to_give(pytester):
    pytester.makepyfile(
        test_net="""
        import torch
        from torch import nn

        class Decides(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x

        def test_no_inputs(fx_golden):
            assert nn.ReLU() == fx_golden(frontend="export")

        def test_symbolic(fx_golden):
            assert Decides() == fx_golden
        """
    )

    result = run(pytester)

    result.stdout.fnmatch_lines(["*frontend='export' runs the model once, so it needs inputs: give example_inputs=*"])
    result.stdout.fnmatch_lines(["*or let torch capture it: frontend='export', or frontend='dynamo' for one that*"])


REAL_MODELS = """
import pytest
from fixtures.catalog import CATALOG

@pytest.mark.parametrize("frontend", ["dynamo", "export", "aot"])
@pytest.mark.parametrize("name", {names})
def test_capture(name, frontend, fx_capture, fx_golden):
    entry = CATALOG[name]
    pytest.importorskip(entry.requires or "torch")
    if (name, frontend) == ("esm2", "export"):
        pytest.skip("decides by the contents of a tensor")
    mode = "train" if frontend == "aot" else "eval"
    capture = fx_capture(
        entry.build(), entry.example_inputs(), kwargs=entry.example_kwargs(), frontend=frontend, mode=mode
    )
    assert capture == fx_golden
"""
NAMES = (
    *(
        "conformer",
        "efficientnet_pytorch_b0",
        "esm2",
        "ft_transformer",
        "g_mlp",
        "gpt_like",
        "mlp_mixer",
        "mobilenetv2",
    ),
    *("resnet10", "tcn", "vit_like"),
)


@pytest.mark.long
def test_goldens_of_real_models_pass_in_a_fresh_process_under_xdist_and_with_another_hash_seed(pytester, monkeypatch):
    pytester.makepyfile(test_net=REAL_MODELS.format(names=NAMES))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    for seed, options in (("1", ["--fx-update-golden"]), ("2", []), ("3", ["-n", "2"])):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        result = pytester.runpytest_subprocess(*_WITHOUT, *options)
        assert result.ret == 0, options


@pytest.mark.long
def test_goldens_of_captures_pass_in_a_fresh_process_and_under_xdist(pytester):
    pytester.makepyfile(test_net=TESTS.format(first='print("first")'))

    assert pytester.runpytest_subprocess("--fx-update-golden").ret == 0
    assert pytester.runpytest_subprocess().ret == 0
    assert pytester.runpytest_subprocess("-n", "2").ret == 0


PLACES = """
import torch
from model import Net

X = torch.ones(2, 4)

def test_capture(fx_capture, fx_golden):
    assert fx_capture(Net(), X) == fx_golden

def test_row(fx_capture, fx_table):
    assert fx_capture(Net(), X) == fx_table
"""
MODEL = """from torch import nn

class Net(nn.Module):
    def forward(self, x):
        x = x + 1
        {line}
        return x.relu()
"""


def test_a_break_has_its_line_in_every_report(pytester, monkeypatch):
    pytester.makepyfile(test_net=PLACES)
    pytester.makefile(".py", model=MODEL.format(line="pass"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.syspath_prepend(pytester.path)
    run(pytester, "--fx-update-golden").assert_outcomes(passed=2)
    pytester.path.joinpath("model.py").write_text(MODEL.format(line='print("here")'), encoding="utf-8")
    sys.modules.pop("model", None)
    linecache.clearcache()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    reports = [option for ending in ("json", "md", "html") for option in ("--fx-report", f"report.{ending}")]
    result = run(pytester, *reports)

    sys.modules.pop("model", None)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["::error file=model.py,line=6,title=golden golden/test_net/test_capture.yaml*"])
    result.stdout.fnmatch_lines(["::error file=model.py,line=6,title=golden golden/test_net/table.yaml[[]test_row]*"])
    result.stdout.fnmatch_lines(['E         model.py:6: print("here")'])
    outcomes = json.loads(pytester.path.joinpath("report.json").read_text(encoding="utf-8"))["outcomes"]
    places = [[(each["file"], each["line"]) for each in outcome["changes"][:1]] for outcome in outcomes]
    assert places == [[("model.py", 6)]] * 2
    for ending in ("md", "html"):
        assert pytester.path.joinpath(f"report.{ending}").read_text(encoding="utf-8").count("model.py:6") >= 1
