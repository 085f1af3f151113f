from __future__ import annotations

import pytest

from pytest_fxgraph.captures import tracing

CALLS = """
def test_first():
    Small()(torch.ones(2, 4))
    model = Small()
    model(torch.ones(2, 4))
    model(torch.ones(2, 4))

def test_again():
    Small()(torch.ones(2, 4))

def test_other():
    Small(5)(torch.ones(2, 5))

def test_traced():
    Small()(torch.ones(2, 4))
    torch.fx.symbolic_trace(Small())
"""


@pytest.fixture
def traced(monkeypatch):
    """The modules that are traced."""
    found = []
    original = tracing.trace_for_inputs

    def trace_for_inputs(model, *args, **kwargs):
        found.append(model)
        return original(model, *args, **kwargs)

    monkeypatch.setattr(tracing, "trace_for_inputs", trace_for_inputs)
    return found


def test_a_module_is_traced_once_and_recorded_for_every_test_that_called_it(record, traced):
    recording = record(CALLS)
    graphs = {
        name.partition("::")[2]: [(each.kind, each.graph) for each in test.graphs]
        for name, test in recording.tests.items()
    }
    [(kind, small)] = set(graphs["test_first"])
    assert kind == "module"
    assert (len(graphs["test_first"]), graphs["test_again"]) == (2, [("module", small)])
    assert [kind for kind, _ in graphs["test_other"]] == ["module"]
    assert graphs["test_other"][0][1] != small
    assert graphs["test_traced"] == [("symbolic", small)]
    assert len(traced) == 2


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("pass", 1),
        ("model.eval()", 2),
        ("x = x[:1]", 2),
        ("x.requires_grad = True", 2),
        ("model.linear.bias = None", 2),
        ("model.power = 3", 2),
        ("model.linear = nn.Sequential(model.linear)", 2),
    ],
)
def test_another_structure_or_other_arguments_are_traced_again(record, traced, change, count):
    record(f"""
        @pytest.mark.parametrize("is_changed", [False, True])
        def test_it(is_changed):
            model, x = Small(), torch.ones(2, 4)
            if is_changed:
                {change}
            model(x)
    """)
    assert len(traced) == count


def test_a_module_whose_function_the_test_replaced_is_left_out(record, traced):
    recording = record("""
        def test_first():
            Small()(torch.ones(2, 4))
        def test_replaced(monkeypatch):
            monkeypatch.setattr(Small, "forward", lambda self, x: torch.sigmoid(self.linear(x)))
            Small()(torch.ones(2, 4))
        def test_again():
            Small()(torch.ones(2, 4))
    """)

    assert [len(test.graphs) for test in recording.tests.values()] == [1, 0, 1]
    (left_out,) = recording.tests["test_suite.py::test_replaced"].left_out
    assert left_out.reason == "the test replaced a forward function, which is another one after the test"
    assert len(traced) == 1


def test_the_example_has_the_sizes_of_the_call_whatever_happened_to_the_input_since(record):
    recording = record("""
        class Chooses(nn.Module):
            def forward(self, x):
                result = torch.sin(x) if len(x) == 2 else torch.cos(x)
                return result

        def test_it():
            x, y = torch.ones(2), torch.ones(3)
            Chooses()(x)
            Chooses()(y)
            x.resize_(5)
            y.data = torch.ones(2)
    """)
    texts = [recording.store.text(each.graph) for each in recording.tests["test_suite.py::test_it"].graphs]
    assert ["%sin = " in text for text in texts] == [True, False]
    assert ["%cos = " in text for text in texts] == [False, True]


def test_the_example_has_the_memory_format_of_the_call(record):
    recording = record("""
        class Chooses(nn.Module):
            def forward(self, x):
                return torch.sin(x) if x.is_contiguous() else torch.cos(x)

        def test_it():
            Chooses()(torch.ones(2, 3).t())
    """)
    (graph,) = recording.tests["test_suite.py::test_it"].graphs
    assert "%cos = " in recording.store.text(graph.graph)


def test_modules_are_watched_in_tests_alone(record):
    record("""
        def is_watched():
            return "recorder" in vars(nn.Module)["__call__"].__code__.co_filename

        at_import = is_watched()

        def test_it():
            assert (at_import, is_watched()) == (False, True)
    """)
    record.result.assert_outcomes(passed=1)


def test_the_trace_leaves_the_module_and_random_numbers_as_they_were(record):
    recording = record("""
        class Draws(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(4)
                self.calls = []
            def forward(self, x):
                self.calls.append(1)
                return self.norm(x) + torch.rand(1)

        torch.manual_seed(0)
        model = Draws()

        def test_a():
            model(torch.ones(2, 4))

        def test_b():
            assert len(model.calls) == 1
            assert model.norm.num_batches_tracked == 1
            drawn = torch.rand(1)
            torch.manual_seed(0)
            assert drawn != torch.rand(1) and drawn == torch.rand(1)
    """)
    record.result.assert_outcomes(passed=2)
    assert recording.tests["test_suite.py::test_a"].graphs


def test_a_module_that_cannot_be_traced_is_left_out_with_its_reason_on_one_line(record):
    recording = record("""
        class Untraceable(nn.Module):
            def forward(self, x):
                import threading
                threads = [threading.Thread(target=lambda: x.sum().item())]
                [each.start() for each in threads]
                [each.join() for each in threads]
                return torch.from_numpy(x.detach().numpy() + 1)[int(x.sum()) :].tolist()

        def test_it():
            Untraceable()(torch.ones(2))
            Untraceable()(torch.ones(2))
            Small()(torch.ones(2, 4))
    """)
    record.result.assert_outcomes(passed=1)
    test = recording.tests["test_suite.py::test_it"]
    assert [each.model for each in test.graphs][-1:] == ["test_suite.Small"]
    for each in test.left_out:
        assert each.reason.startswith("cannot trace Untraceable")
        assert "\n" not in each.reason


def test_a_compiled_module_is_recorded_as_a_module_where_nothing_is_compiled_again(record):
    recording = record("""
        compiled = torch.compile(Small(), backend="eager")
        def test_a():
            compiled(torch.ones(2, 4))
        def test_b():
            compiled(torch.ones(2, 4))
    """)
    kinds = {name.partition("::")[2]: [each.kind for each in test.graphs] for name, test in recording.tests.items()}
    assert kinds == {"test_a": ["dynamo"], "test_b": ["module"]}
