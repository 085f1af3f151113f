"""What fails is told on one screen: few lines, the change first, one cause once."""

from __future__ import annotations

import json
import re

import pytest

MODELS = """
import torch
from torch import nn


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return torch.relu(x)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        return torch.relu(self.linear(x))
"""

RAISED = {
    "a golden of what cannot be traced": ("fx_golden", "assert Branching() == fx_golden", "cannot trace Branching"),
    "a checked golden of what cannot be traced": (
        "fx_golden",
        "fx_golden.check(Branching())",
        "cannot trace Branching",
    ),
    "fx_trace": ("fx_trace", "fx_trace(Branching())", "cannot trace Branching"),
    "fx_equivalence": ("fx_equivalence", "fx_equivalence(Branching(), torch.ones(2))", "cannot trace Branching"),
    "fx_transform": ("fx_transform", "fx_transform(len, Branching(), torch.ones(2))", "cannot trace Branching"),
    "example inputs that do not fit": (
        "fx_golden",
        "assert Linear() == fx_golden(example_inputs=torch.ones(2, 7))",
        "the example inputs do not run through the graph of Linear",
    ),
    "example inputs of another form": (
        "fx_golden",
        "assert Linear() == fx_golden(example_inputs=[1])",
        "example_inputs: expected a tuple",
    ),
    "example inputs of fx_trace": (
        "fx_trace",
        "fx_trace(Linear(), example_inputs=torch.ones(2, 7))",
        "cannot trace Linear: the model itself does not run on the example inputs",
    ),
    "a level": ("fx_golden", "assert Linear() == fx_golden(level='nope')", "there is no level 'nope'"),
    "a form of constants": ("fx_golden", "assert Linear() == fx_golden(constants='x')", "argument constants: expected"),
    "an option that there is not": (
        "fx_golden",
        "assert Linear() == fx_golden(levl='x')",
        "fx_golden() got",
    ),
    "a mode": ("fx_equivalence", "fx_equivalence(Linear(), torch.ones(4), modes=('x',))", "modes must name"),
    "what is no subject": ("fx_golden", "assert 3 == fx_golden", "an object of builtins.int is no subject"),
    "an operator": ("fx_ops", "fx_ops(Linear()).count('aten.nope*')", "'aten.nope*' could never match"),
    "an operator that is there": ("fx_ops", "fx_ops(Linear()).absent(torch.relu)", "torch.relu must be absent"),
    "a pattern of other parameters": (
        "fx_rewrite",
        "fx_rewrite(Linear(), lambda x: torch.relu(x), lambda x, y: torch.neg(x))",
        "Placeholder count mismatch",
    ),
    "a pattern that cannot be traced": (
        "fx_rewrite",
        "fx_rewrite(Linear(), Branching(), Branching())",
        "cannot trace Branching",
    ),
}


def lines_of_failure(result: pytest.RunResult) -> list[str]:
    """Return what stands between the headline of the one failure and the next section."""
    start = next(place for place, line in enumerate(result.outlines) if re.match(r"_{3,} test\w* _{3,}\Z", line))
    end = next(place for place, line in enumerate(result.outlines) if place > start and re.match(r"[=-]{3,} ", line))
    return result.outlines[start + 1 : end]


def last_of_summary(result: pytest.RunResult) -> str:
    """Return what the line of the one failure in the short summary says after the test's id."""
    (line,) = [line for line in result.outlines if line.startswith(("FAILED ", "ERROR "))]
    return line.partition(" - ")[2]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("case", RAISED)
def test_no_more_than_15_lines_tell_what_is_wrong_with(project, case, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    fixture, statement, begins = RAISED[case]
    project.write("models.py", MODELS)
    project.test(f"import torch\nfrom models import *\n\n\ndef test({fixture}):\n    {statement}\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    lines = lines_of_failure(result)
    assert len(lines) <= 15, "\n".join(lines)
    assert not any("fxgraph/" in line or "fxcore/" in line for line in lines)
    assert last_of_summary(result).startswith(begins)


def test_the_frames_of_a_users_pass_stay(project):
    project.write("models.py", MODELS)
    project.test(
        "import torch\nfrom models import *\n\n\ndef fuse(gm):\n    raise KeyError('fused')\n\n\n"
        "def test(fx_transform):\n    fx_transform(fuse, Linear(), torch.ones(4))\n"
    )

    result = project.run()

    assert any("raise KeyError('fused')" in line for line in lines_of_failure(result))
    assert not any("fxgraph/" in line for line in lines_of_failure(result))
    assert last_of_summary(result) == "KeyError: 'fused'"


def test_full_trace_shows_all(project):
    project.write("models.py", MODELS)
    project.test("from models import *\n\n\ndef test(fx_golden):\n    assert Branching() == fx_golden\n")

    result = project.run("--full-trace")

    result.stdout.fnmatch_lines(["*captures/tracing.py:*", "*direct cause of the following exception*"])


def test_a_failure_of_tracing_names_the_line_of_the_model(project):
    project.write("models.py", MODELS)
    project.test("from models import *\n\n\ndef test(fx_golden):\n    assert Branching() == fx_golden\n")

    project.run().stdout.fnmatch_lines(["E*models.py:8, in forward: if x.sum() > 0:"])


LARGE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4 + 0 * n)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4))
        self.layers = nn.ModuleList(Block(n) for n in range(30))
        self.head = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))
        self.tail = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 9))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.tail(self.head(x)).softmax(-1)
"""


def section_of(result: pytest.RunResult, name: str = "golden/test_net/test_net.yaml") -> list[str]:
    start = next(place for place, line in enumerate(result.outlines) if re.match(rf"-+ fx golden {name} -+", line))
    ends = (
        place for place, line in enumerate(result.outlines) if place > start and re.match(r"(?:[-=_]{3}|fx: )", line)
    )
    return result.outlines[start + 1 : next(ends)]


def test_a_missing_golden_shows_a_folded_summary_of_at_most_20_lines(project):
    project.write("model.py", LARGE)

    lines = section_of(project.run())

    assert len(lines) <= 20
    assert lines[0] == "golden/test_net/test_net.yaml would be a graph of 133 nodes, 70 modules, 134 tensors"
    assert "  layers.0 .. layers.29: 4 nodes each, Linear x2, torch.relu, operator.add" in lines
    assert "  input x" in lines
    assert "  return %softmax" in lines


def test_a_cause_that_hits_many_goldens_is_told_once_with_its_cluster_and_the_count(project):
    test = (
        "import pytest\nfrom model import Net\n\n\n@pytest.mark.parametrize('p', range(4))\n"
        "def test_net(fx_golden, p):\n    assert Net() == fx_golden\n"
    )
    project.test(test)
    project.update()
    project.model("torch.sigmoid(torch.neg(y))")

    result, loud, received = project.run(), project.run("-vv"), project.run("--fx-received")

    result.stdout.fnmatch_lines(
        ["fx: 4 goldens differ in the same way (cluster ??????): *", "fx: accept the 4 golden files of *"]
    )
    cluster = next(re.search(r"cluster (\w{6})", line) for line in result.outlines if line.startswith("fx: 4"))
    assert cluster is not None
    key = cluster[1]
    assert sum(line.startswith("edits (") for line in result.outlines) == 1
    again = "the same difference as in golden/test_net/test_net-0.yaml"
    assert sum(line.startswith(f"{again} (cluster {key})") for line in result.outlines) == 3
    assert sum(line.startswith("edits (") for line in loud.outlines) == 4
    received.stdout.fnmatch_lines(
        [f"fx: accept the 4 golden files of cluster {key} with: fxgraph accept --cluster {key}"]
    )


LOOP = "import torch\n\n\ndef net(x):\n    for _ in range(40):\n        x = {body}\n    return x\n"


def test_differences_at_one_source_line_are_told_once(project):
    project.test("from model import net\n\n\ndef test_net(fx_golden):\n    assert net == fx_golden\n")
    project.write("model.py", LOOP.format(body="torch.relu(x)"))
    project.update()
    project.write("model.py", LOOP.format(body="torch.relu(x) * 2"))

    lines = section_of(project.run())

    assert lines.count("      model.py:6: x = torch.relu(x) * 2") == 1
    assert sum("mul" in line and "at 40 places" in line for line in lines[2:]) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y + torch.arange(400.0)", "y + torch.arange(400.0).flip(0)"),
        (f"y + torch.tensor({list(range(64))})", f"y + torch.tensor({list(range(1, 65))})"),
        ("y.view(1, 2, 3, 4, 5)", f"y.view({', '.join(map(str, range(90)))})"),
    ],
)
def test_headlines_are_short_and_without_digests(project, before, after):
    project.model(before)
    project.update().assert_outcomes(passed=1)
    project.model(after)

    project.run("--fx-report=report.json")

    (outcome,) = json.loads((project.path / "report.json").read_text())["outcomes"]
    headline = outcome["headline"]
    assert len(headline) < 120
    assert not re.search("[0-9a-f]{12}", headline)


def test_the_line_of_the_summary_says_that_there_is_no_golden(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    assert last_of_summary(project.run()) == "there is no golden golden/test_net/test_net.yaml"


@pytest.mark.parametrize("options", [[], pytest.param(["-n1"], marks=pytest.mark.slow), ["--assert=plain"]])
def test_the_line_of_the_summary_begins_with_the_change(project, monkeypatch, options):
    monkeypatch.setenv("COLUMNS", "200")
    project.update()
    project.model("torch.sigmoid(y)")

    assert last_of_summary(project.run(*options)) == "torch.relu -> torch.sigmoid"


def test_of_several_goldens_the_summary_tells_the_first_change(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = (
        "import torch\n\n\ndef test_net(fx_golden):\n    fx_golden.check(lambda x: torch.{0}(x))\n"
        "    fx_golden.check(lambda x: torch.{0}(x), name='b')\n"
    )
    project.test(text.format("neg"))
    project.update()
    project.test(text.format("abs"))

    assert last_of_summary(project.run()) == "torch.neg -> torch.abs (and 1 more golden)"


def test_the_readable_view_shows_the_module_of_each_node(project, capsys):
    from pytest_fxgraph.command.main import main

    project.write("model.py", LARGE.replace("range(30)", "range(1)"))
    project.update()
    capsys.readouterr()

    main(["show", "--full", str(project.path / "golden/test_net/test_net.yaml")])

    lines = capsys.readouterr().out.splitlines()
    softmax = next(place for place, line in enumerate(lines) if ".softmax(" in line)
    assert lines[softmax - 1].endswith("in tail")
    assert "in tail" not in lines[softmax]


def test_unused_goldens_that_fail_the_run_are_named_as_the_reason(project):
    project.update()
    project.test("def test_other():\n    pass\n")

    result = project.run("--fx-unused=fail")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["fx: the run fails, as no test asked for 1 golden (--fx-unused=fail)"])
    project.run().stdout.no_fnmatch_line("fx: the run fails*")


def test_the_debugger_shows_the_section_once_before_its_prompt(project):
    project.write(
        "quiet.py",
        "import pdb\n\n\nclass Quiet(pdb.Pdb):\n    def interaction(self, *args):\n        print('the prompt')\n",
    )
    project.model()
    project.test()
    project.update()
    project.model("torch.sigmoid(y)")

    text = project.run("--pdb", "--pdbcls=quiet:Quiet").stdout.str()

    assert text.index("fx golden golden/test_net/test_net.yaml") < text.index("the prompt")
    assert text.count("around sigmoid") == 1
