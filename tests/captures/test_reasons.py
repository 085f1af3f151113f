"""torch's words for a break, of several versions, as kind, operator and cure."""

from __future__ import annotations

import pytest

from pytest_fxgraph.captures.reasons import first_line, read_reason

PRINT = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']
  Hint: Avoid calling builtin `print` with argument types ['str'].
  Hint: Please report an issue to PyTorch."""
FUNDAMENTAL = """Something new
  Explanation: Nobody has seen this.
  Hint: This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through your code."""


@pytest.mark.parametrize(
    ("text", "kind", "operator"),
    [
        (PRINT, "builtin", "print"),
        ("builtin: print [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False", "builtin", "print"),
        ("generic_jump TensorVariable()", "branch on a tensor", "if"),
        ("Data-dependent branching\n  Explanation: Detected data-dependent branching", "branch on a tensor", "if"),
        ("Tensor.item", "number out of a tensor", "item"),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "number out of a tensor", "item"),
        ("Call to `torch._dynamo.graph_break()`", "graph_break()", "torch._dynamo.graph_break"),
        ("'skip function graph_break in file /x/decorators.py'", "graph_break()", "torch._dynamo.graph_break"),
        ("call torch._dynamo.disable() wrapped function <function f at 0x7>", "disabled function", "f"),
        (
            "Skip calling `torch.compiler.disable()`d function\n  Explanation: Skip calling `<function f at 0x7>`",
            "disabled function",
            "f",
        ),
        (
            "'inline in skipfiles: Model.forward | _fn /x/torch/_dynamo/eval_frame.py, skipped according trace_rules'",
            "disabled function",
            "Model.forward",
        ),
        (
            "dynamic shape operator: aten.nonzero.default; to enable",
            "operator of unknown shape",
            "aten.nonzero.default",
        ),
        (
            "Dynamic shape operator\n  Explanation: Operator `aten.nonzero.default`'s output shape depends on data.",
            "operator of unknown shape",
            "aten.nonzero.default",
        ),
    ],
)
def test_the_words_of_every_version_are_one_kind(text, kind, operator):
    reason = read_reason(text, "y = call(x)")

    assert (reason.kind, reason.operator) == (kind, operator)


@pytest.mark.parametrize(
    ("text", "kind", "operator", "cure"),
    [
        ("skip function step in file /x/torch/optim.py", "skipped function", "step", None),
        ("The function is marked as skipped (qualname: Net.step)", "skipped function", "Net.step", None),
        ("Attempted to call function marked as skipped: function `step`", "skipped function", "step", None),
        ("call of the builtin function mod.run", "C function", "mod.run", None),
        ("Graph break in a Context manager", "context manager", "with", None),
        ("Observed exception", "exception", "raise", None),
        ("YIELD_VALUE", "generator", "yield", None),
        ("builtin: input [x]", "builtin", "input", "read what is needed before the model is called"),
        ("builtin operator `open`", "builtin", "open", "read the file before the model is called"),
        ("Tensor.numpy", "number out of a tensor", "numpy", "set torch._dynamo.config.capture_scalar_outputs = True, or"
         " keep the number in a tensor"),
        ("Tensor.numpy, because numpy() on a subclass", "not supported", "", None),
        ("dynamic shape operator: aten.nonzero.default", "operator of unknown shape", "aten.nonzero.default",
         "set torch._dynamo.config.capture_dynamic_output_shape_ops = True, or use torch.where with fixed sizes"),
        ("call torch.compiler.disable() wrapped function", "disabled function", "",
         "remove torch.compiler.disable from the function"),
        ("words\n  Hint: Please report an issue.\n  Hint: Move it\n    out of the model.\n  Developer debug context: x",
         "not supported", "", "Move it out of the model."),
    ],
)  # fmt: skip
def test_each_kind_has_its_operator_and_its_cure(text, kind, operator, cure):
    reason = read_reason(text)

    assert (reason.kind, reason.operator, reason.cure) == (kind, operator, cure)
    assert reason.is_avoidable is (None if cure is None else True)


@pytest.mark.parametrize(
    ("source", "operator"),
    [("y = tool.run(x)", "tool.run"), ("y = run(other(x))", ""), ("y = x + 1", ""), ("if f(x) and g(x):", "")],
)
def test_the_only_call_of_a_line_is_the_operator(source, operator):
    assert read_reason("words nobody knows", source).operator == operator


def test_a_cure_is_ours_or_else_torchs_hint():
    assert read_reason(PRINT).cure == (
        "remove the print, or add it to torch._dynamo.config.reorderable_logging_functions"
    )
    assert (
        read_reason(PRINT.replace("`print`", "`vars`")).cure
        == "Avoid calling builtin `vars` with argument types ['str']."
    )


def test_what_torch_calls_fundamental_cannot_be_avoided():
    reason = read_reason(FUNDAMENTAL, "y = tool.run(x)")

    assert (reason.kind, reason.operator, reason.cure, reason.is_avoidable) == (
        "not supported",
        "tool.run",
        None,
        False,
    )
    assert read_reason("words nobody knows").is_avoidable is None


def test_torchs_sentence_is_its_first_line():
    assert first_line(PRINT) == "Failed to trace builtin operator"
