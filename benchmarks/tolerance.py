"""Does the default tolerance tell right from wrong? Right and wrong variants of many models, judged by it.

`python -m benchmarks.tolerance --out tolerance.jsonl` measures the models of `tolerance_models` that are installed and
not in the file yet, and prints a table by family.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from benchmarks.result import Table, machine
from benchmarks.tolerance_models import Subject, family_of, subjects
from fxcore.experimental.optimization import fuse
from fxcore.state.held_state import HeldState
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.fp64_reference import DoubleJudge, compared_tensors
from pytest_fxgraph.equivalence.gradients import Gradients, compare_gradients, gradients_of, rules_of_gradients
from pytest_fxgraph.equivalence.inputs import ArgumentCopy, Arguments
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import ToleranceRule, largest_magnitude

_RULE = ToleranceRule()
_COMPARISON = OutputComparison(_RULE)
# Beyond it, gradients in double precision take more memory than a small machine has.
_MOST_WITH_GRADIENTS = 12_000_000

# What a pass that confuses two activations writes.
_REPLACEMENTS: dict[Any, Callable[[torch.Tensor], torch.Tensor]] = {
    nn.functional.relu: lambda x: nn.functional.leaky_relu(x, 0.01),
    torch.relu: lambda x: nn.functional.leaky_relu(x, 0.01),
    torch.Tensor.relu: lambda x: nn.functional.leaky_relu(x, 0.01),
    nn.functional.leaky_relu: nn.functional.relu,
    nn.functional.relu6: nn.functional.relu,
    nn.functional.hardtanh: nn.functional.relu,
    nn.functional.silu: nn.functional.gelu,
    nn.functional.gelu: nn.functional.silu,
    nn.functional.elu: nn.functional.silu,
    nn.functional.prelu: nn.functional.relu,
    nn.functional.hardswish: nn.functional.silu,
    nn.functional.hardsigmoid: torch.sigmoid,
    torch.tanh: nn.functional.hardtanh,
    torch.sigmoid: nn.functional.hardsigmoid,
    torch.Tensor.sigmoid: nn.functional.hardsigmoid,
}


class _Activations(TorchFunctionMode):
    """Counts the calls of activations, and replaces one of them."""

    def __init__(self, replaced: int | None = None) -> None:
        super().__init__()
        self.names: list[str] = []
        self._replaced = replaced

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        replacement = _REPLACEMENTS.get(func)
        if replacement is not None:
            self.names.append(func.__name__)
            if len(self.names) - 1 == self._replaced:
                return replacement(args[0])
        return func(*args, **kwargs or {})


def randomize(model: nn.Module) -> None:
    """Give statistics, norms, biases and scales of layers random values, so that no part of the model is idle."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.1, generator=generator)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5, generator=generator)
        for parameter in model.parameters():
            first = parameter.reshape(-1)[:1]
            if parameter.numel() > 1 and bool((parameter == first).all()):
                if float(first) == 0:
                    parameter.normal_(0, 0.1, generator=generator)
                else:
                    parameter.uniform_(0.5, 1.5, generator=generator)


class _Flat(nn.Module):
    """Returns the floating tensors in what a model returns, as a list."""

    def __init__(self, model: nn.Module, replaced: int | None = None) -> None:
        super().__init__()
        self.model = model
        self.replaced = replaced  # the number of the activation that is another one

    def forward(self, *inputs: Any) -> list[torch.Tensor]:
        with _Activations(self.replaced):
            return [value for _, value in tensors_in(self.model(*inputs), "") if value.is_floating_point()]


@dataclass(frozen=True)
class _Run:
    """What one call gave."""

    output: list[torch.Tensor]
    gradients: Gradients | None


def _run(model: nn.Module, inputs: tuple[Any, ...], *, grads: bool) -> _Run:
    torch.manual_seed(0)
    model = copy.deepcopy(model)  # some write into their buffers
    leaves = {
        f"input {place}": value.detach().clone().requires_grad_()
        for place, value in enumerate(inputs)
        if grads and isinstance(value, torch.Tensor) and value.is_floating_point()
    }
    with torch.set_grad_enabled(grads):
        output = model(*(leaves.get(f"input {place}", value) for place, value in enumerate(inputs)))
    if not grads:
        return _Run(output, None)
    views = {path: (leaf, (leaf.shape, leaf.stride(), 0)) for path, leaf in leaves.items()}
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    gradients = gradients_of(output, parameters, ArgumentCopy(Arguments((), {}), views), 0)
    return _Run([value.detach() for value in output], gradients)


def _rounded(wide: _Run, like: _Run) -> _Run:
    """Return a run in double precision in the dtypes of another."""
    output = [value.to(other.dtype) for value, other in zip(wide.output, like.output, strict=True)]
    if wide.gradients is None or like.gradients is None:
        return _Run(output, None)
    return _Run(output, {
        name: None if value is None or other is None else value.to(other.dtype)
        for (name, value), other in zip(wide.gradients.items(), like.gradients.values(), strict=True)
    })  # fmt: skip


class _Judge:
    """Judges what variants of a model give by the default tolerance."""

    def __init__(self, model: nn.Module, inputs: tuple[Any, ...], expected: _Run) -> None:
        self._model, self._inputs, self._expected = model, inputs, expected
        arguments = Arguments(inputs, {})
        self._settings = RunSettings(arguments, StateNames(HeldState(None)), Snapshot(), 0, grads=False)

    def error(self, obtained: list[torch.Tensor], expected: list[torch.Tensor] | None = None) -> float:
        """Return the largest error as a part of the largest magnitude of its tensor."""
        pairs = zip(obtained, expected or self._expected.output, strict=True)
        errors = [
            float((value.double() - other.double()).abs().max()) / largest
            for value, other in pairs
            if (largest := largest_magnitude([other]))
        ]
        return max(errors, default=0.0)

    def refused(self, obtained: _Run, variant: nn.Module | None = None) -> tuple[int, int]:
        """Return how many outputs and how many gradients count as different."""
        mine = self._expected
        found = [each for each in _COMPARISON.compare(mine.output, obtained.output, "output") if each.kind == "value"]
        rules: dict[str, ToleranceRule] = {}
        if mine.gradients is not None and obtained.gradients is not None:
            inputs = [name for name in mine.gradients if name.startswith("input ")]
            found += compare_gradients(mine.gradients, obtained.gradients, _COMPARISON, inputs)
            rules = rules_of_gradients(mine.gradients, _RULE, inputs)
        tensors, others = (compared_tensors(run.output, run.gradients) for run in (mine, obtained))
        judge = DoubleJudge(self._model, variant, self._settings, tensors, others, {})
        found = judge.without_rounding(found, lambda where: rules.get(where, _RULE))
        of_outputs = sum(each.kind == "value" for each in found)
        return of_outputs, len(found) - of_outputs


def measure(build: Callable[[], nn.Module], inputs: tuple[Any, ...], *, is_random: bool) -> dict[str, Any]:
    """Judge the right and wrong variants of one model, and return what was found as plain data."""
    torch.manual_seed(0)
    model = _Flat(build().eval())
    if is_random:
        randomize(model)
    grads = sum(parameter.numel() for parameter in model.parameters()) <= _MOST_WITH_GRADIENTS
    with _Activations() as activations:
        expected = _run(model, inputs, grads=grads)
    judge = _Judge(model, inputs, expected)
    wide = copy.deepcopy(model).double(), _in_double(inputs)
    in_double = _run(*wide, grads=grads)
    found: dict[str, Any] = {"M": largest_magnitude(expected.output), "gradients": grads, "right": {}, "wrong": []}
    for name, right in _right_variants(model, inputs, expected, in_double, grads).items():
        if right is not None:
            outputs, gradients = judge.refused(right, model)
            error = judge.error(right.output)
            found["right"][name] = {"error": error, "refused": outputs, "refused_gradients": gradients}
    count = len(activations.names)
    for place in sorted({0, count // 2, count - 1} if count else ()):
        variant = _Flat(model.model, place)
        wrong = _run(variant, inputs, grads=grads)
        effect = judge.error(_run(_Flat(wide[0].model, place), wide[1], grads=False).output, in_double.output)
        outputs, gradients = judge.refused(wrong, variant)
        activation = f"{activations.names[place]} {place + 1} of {count}"
        found["wrong"].append(
            {"activation": activation, "effect": effect, "refused": outputs, "refused_gradients": gradients}
        )
    return found


def _right_variants(
    model: _Flat, inputs: tuple[Any, ...], expected: _Run, in_double: _Run, grads: bool
) -> dict[str, _Run | None]:
    """Run what computes the same with other rounding; None for what the model does not support."""

    def channels_last() -> _Run:
        images = tuple(
            value.contiguous(memory_format=torch.channels_last) if getattr(value, "ndim", 0) == 4 else value
            for value in inputs
        )
        return _run(copy.deepcopy(model).to(memory_format=torch.channels_last), images, grads=grads)

    def other_kernels() -> _Run:
        with torch.backends.mkldnn.flags(enabled=False):
            return _run(model, inputs, grads=False)

    variants: dict[str, Callable[[], _Run]] = {
        "batch norm folded": lambda: _run(_Flat(fuse(copy.deepcopy(model.model))), inputs, grads=False),
        "channels last": channels_last,
        "other kernels": other_kernels,
        "in double": lambda: _rounded(in_double, expected),
    }
    return {name: _if_supported(variant) for name, variant in variants.items()}


def _if_supported(variant: Callable[[], _Run]) -> _Run | None:
    try:
        return variant()
    except Exception:  # whatever a model raises that cannot be traced or laid out otherwise
        return None


def _in_double(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in inputs
    )


def table_of(rows: list[dict[str, Any]]) -> Table:
    """Sum up what was found by family, with fresh and random weights apart where M tells them apart."""
    table = Table("The default tolerance over models", COLUMNS)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((family_of(row["name"]), row["weights"]), []).append(row)
    for (family, weights), group in sorted(groups.items()):
        table.rows.append([f"{family}, {weights}", *_summary(group)])
    return table


COLUMNS = (
    "family, weights", "models", "M", "right, at most", "right refused", "gradients refused",
    "wrong caught", "with gradients", "effect of the missed, at most",
)  # fmt: skip


def _summary(group: list[dict[str, Any]]) -> list[object]:
    right = [variant for row in group for variant in row["right"].values()]
    wrong = [variant for row in group for variant in row["wrong"]]
    missed = [variant["effect"] for variant in wrong if not (variant["refused"] or variant["refused_gradients"])]
    magnitudes = [row["M"] for row in group]
    return [
        len(group),
        f"{min(magnitudes):.0e} to {max(magnitudes):.0e}",
        max((variant["error"] for variant in right), default=0.0),
        sum(bool(variant["refused"]) for variant in right),
        sum(bool(variant["refused_gradients"]) for variant in right),
        f"{sum(bool(variant['refused']) for variant in wrong)} of {len(wrong)}",
        f"{len(wrong) - len(missed)} of {len(wrong)}",
        max(missed, default=0.0),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tolerance", description=__doc__)
    parser.add_argument("models", nargs="*", default=["*"], help="globs of names such as 'torchvision/resnet*'")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results/tolerance.jsonl"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.touch()
    known = {(row["name"], row["weights"]) for row in _rows(options.out)}
    for subject in subjects():
        if any(fnmatch.fnmatch(subject.name, glob) for glob in options.models):
            for weights in ("fresh", "random"):
                if (subject.name, weights) not in known:
                    _append(options.out, subject, weights)
    rows = _rows(options.out)
    print(machine(), table_of([row for row in rows if "error" not in row]).markdown(), sep="\n")
    for row in rows:
        if "error" in row:
            print(f"not measured: {row['name']}, {row['weights']}: {row['error']}")


def _append(out: Path, subject: Subject, weights: str) -> None:
    print(f"measuring {subject.name}, {weights} ...", file=sys.stderr, flush=True)
    try:
        found = measure(subject.build, subject.inputs(), is_random=weights == "random")
    except Exception as error:  # one model that does not run must not end the rest
        found = {"error": f"{type(error).__name__}: {str(error)[:100]}"}
    row = {"name": subject.name, "weights": weights, **found}
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
