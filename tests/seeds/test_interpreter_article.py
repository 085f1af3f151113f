"""Seed 003, "How torch.fx.Interpreter Executes FX Models": its two programs, with fxcore."""

from __future__ import annotations

import re
import time

import torch

from fxcore import Interpreter, symbolic_trace


def test_an_interpreter_swaps_sigmoid_for_neg():
    def my_model(x):
        return torch.sigmoid(torch.neg(x))

    traced = symbolic_trace(my_model)

    class NegSigmSwapInterpreter(Interpreter):
        def call_function(self, target, args, kwargs):
            if target == torch.sigmoid:
                return torch.neg(*args, **kwargs)
            return super().call_function(target, args, kwargs)

    interpreter = NegSigmSwapInterpreter(traced)
    input = torch.randn(3, 4)  # noqa: A001 (the article's own name)

    result = interpreter.run(input)

    # Mended: the article compares with torch.neg(input).sigmoid(), which is what the model gives without the swap.
    torch.testing.assert_close(result, torch.neg(torch.neg(input)))
    torch.testing.assert_close(Interpreter(traced).run(input), torch.neg(input).sigmoid())


def test_an_interpreter_measures_each_operation(capsys):
    def my_model(x):
        y = torch.relu(x)
        z = torch.neg(y)
        return z.abs()

    traced = symbolic_trace(my_model)

    # Mended: an Interpreter has no `self.root_node`, and the article wants a time for each operation,
    # so run_node is what has to be timed.
    class ProfilingInterpreter(Interpreter):
        def __init__(self, graph_module):
            super().__init__(graph_module)
            self.op_times = {}

        def run_node(self, n):
            start_time = time.time()
            result = super().run_node(n)
            elapsed_time = time.time() - start_time
            self.op_times[n.target] = elapsed_time
            return result

    interpreter = ProfilingInterpreter(traced)
    input = torch.randn(3, 4)  # noqa: A001 (the article's own name)

    result = interpreter.run(input)
    for op, time_taken in interpreter.op_times.items():
        print(f"Operation: {op}, Time: {time_taken:.4f} seconds")

    assert torch.equal(result, my_model(input))
    assert list(interpreter.op_times) == ["x", torch.relu, torch.neg, "abs", "output"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(re.fullmatch(r"Operation: .+, Time: \d+\.\d{4} seconds", line) for line in lines)
