"""`python -m fxcore.profile module:factory`: trace a model, and print its times and the attainable times.

The factory has no parameters. It returns the model and a tuple of its inputs, or with `--shape` the model alone.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.errors import FxError
from fxcore.graph_module import GraphModule
from fxcore.transforms.analysis.costs import graph_costs
from fxcore.transforms.analysis.critical_path import critical_path
from fxcore.transforms.analysis.memory import activation_memory
from fxcore.transforms.analysis.profile import profile
from fxcore.transforms.analysis.roofline import PEAKS, measure_peaks, peaks_named, roofline


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, or 2 after an error. The error is printed on stderr."""
    options = _parser().parse_args(arguments)
    try:
        _print(options)
    except (FxError, ImportError, AttributeError, ValueError, TypeError, OSError) as error:
        print(f"fxcore.profile: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fxcore.profile", description=__doc__.partition("\n")[0])
    parser.add_argument("factory", metavar="MODULE:FACTORY", help="what returns the model and a tuple of its inputs")
    parser.add_argument("--shape", metavar="SIZES", help="shape of the one input, such as 1,3,224,224")
    parser.add_argument("--warmup", type=int, default=3, help="runs that do not count (default: 3)")
    parser.add_argument("--repeats", type=int, default=10, help="runs that are measured (default: 10)")
    parser.add_argument("--peaks", metavar="NAME", help=f"of the machine: {', '.join(PEAKS)} (default: measured)")
    parser.add_argument("--kernels", action="store_true", help="tell the time of kernels, too, by torch.profiler")
    parser.add_argument("--most", type=int, default=20, help="nodes in a table (default: 20)")
    parser.add_argument("--trace", metavar="FILE", help="write a run for chrome://tracing and Perfetto")
    return parser


def _print(options: argparse.Namespace) -> None:
    model, inputs = _subject(options.factory, options.shape)
    module = model if isinstance(model, GraphModule) else symbolic_trace(model.eval())
    costs = graph_costs(module, *inputs)
    times = profile(
        module, *inputs, warmup=options.warmup, repeats=options.repeats, kernels=options.kernels, progress=_progress
    )
    device = next((tensor.device.type for tensor in [*module.parameters(), *inputs] if torch.is_tensor(tensor)), "cpu")
    roof = roofline(costs, times, peaks_named(options.peaks) if options.peaks else measure_peaks(device))
    path = critical_path(module.graph, {each.node.name: each.median for each in times.nodes})
    print(times.table(options.most))
    print(f"\n{roof.table(options.most)}")
    print(f"\ncritical path: {len(path.nodes)} nodes, {path.weight * 1e6:.1f} us, parallelism {path.parallelism:.2f}")
    print(f"\npeak activation memory\n{activation_memory(costs.values).table()}")
    if costs.uncounted:
        print(f"\noperators without a count of FLOPs: {', '.join(costs.uncounted)}")
    if options.trace:
        Path(options.trace).write_text(times.chrome_trace(), encoding="utf-8")


def _subject(name: str, shape: str | None) -> tuple[Any, tuple[Any, ...]]:
    """Call the factory. Raises ValueError if it gives neither model and inputs, nor a model where a shape is given."""
    home, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"{name!r} is no MODULE:FACTORY; write for instance my_models:resnet")
    sys.path.insert(0, "")
    made = getattr(importlib.import_module(home), attribute)()
    if isinstance(made, nn.Module) and shape is not None:
        return made, (torch.rand([int(size) for size in shape.split(",")]),)
    if isinstance(made, (tuple, list)) and len(made) == 2 and isinstance(made[0], nn.Module):
        inputs = made[1]
        return made[0], inputs if isinstance(inputs, tuple) else (inputs,)
    raise ValueError(
        f"{name} returned a {type(made).__name__}; it has to return a model and a tuple of inputs, "
        "or a model together with --shape"
    )


def _progress(numbers: Sequence[int]) -> Iterable[int]:
    """Show a bar on a terminal where tqdm is installed."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]  # without stubs, where it is there
        except ImportError:
            return numbers
        return tqdm(numbers, desc="profiling", leave=False)  # type: ignore[no-any-return]
    return numbers


if __name__ == "__main__":
    sys.exit(main())
