"""Which functions, methods and modules are spellings of one operator, and how their parameters are called there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spelling:
    """One way to write an operator: parameters in the order of the call, by the names of the operator."""

    operator: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class SpelledTable:
    """All spellings by what a node has as its target or its module's class, and the operators' defaults."""

    functions: Mapping[str, Spelling]
    methods: Mapping[str, Spelling]
    modules: Mapping[str, Spelling]  # parameters are the names in the module's configuration
    defaults: Mapping[str, Mapping[str, str]]

    def default(self, operator: str, parameter: str) -> str | None:
        """Give the text of a parameter that is not written; None where it must be."""
        return self.defaults.get(operator, {}).get(parameter)


# Operator and parameters in order. Each is torch.NAME and x.NAME() with these parameters.
_OF_TENSORS = {
    "relu": "input",
    "sigmoid": "input",
    "tanh": "input",
    "abs": "input",
    "neg": "input",
    "exp": "input",
    "log": "input",
    "sqrt": "input",
    "rsqrt": "input",
    "sin": "input",
    "cos": "input",
    "erf": "input",
    "softmax": "input dim dtype",
    "log_softmax": "input dim dtype",
    "flatten": "input start_dim end_dim",
    "unsqueeze": "input dim",
    "transpose": "input dim0 dim1",
    "chunk": "input chunks dim",
    "add": "input other alpha",
    "sub": "input other alpha",
    "mul": "input other",
    "div": "input other rounding_mode",
    "pow": "input exponent",
    "matmul": "input other",
    "eq": "input other",
    "ne": "input other",
    "lt": "input other",
    "le": "input other",
    "gt": "input other",
    "ge": "input other",
    "bitwise_and": "input other",
    "bitwise_or": "input other",
    "bitwise_xor": "input other",
}
# Functions of torch.nn.functional with parameters in order.
_FUNCTIONAL = {
    "relu": "input inplace",
    "sigmoid": "input",
    "tanh": "input",
    "softmax": "input dim _stacklevel dtype",
    "log_softmax": "input dim _stacklevel dtype",
    "gelu": "input approximate",
    "silu": "input inplace",
    "leaky_relu": "input negative_slope inplace",
    "elu": "input alpha inplace",
    "relu6": "input inplace",
    "hardtanh": "input min_val max_val inplace",
    "softplus": "input beta threshold",
}
_MODULES = {
    "torch.nn.ReLU": ("relu", "inplace"),
    "torch.nn.Sigmoid": ("sigmoid", ""),
    "torch.nn.Tanh": ("tanh", ""),
    "torch.nn.Softmax": ("softmax", "dim"),
    "torch.nn.LogSoftmax": ("log_softmax", "dim"),
    "torch.nn.Flatten": ("flatten", "start_dim end_dim"),
    "torch.nn.GELU": ("gelu", "approximate"),
    "torch.nn.SiLU": ("silu", "inplace"),
    "torch.nn.LeakyReLU": ("leaky_relu", "negative_slope inplace"),
    "torch.nn.ELU": ("elu", "alpha inplace"),
    "torch.nn.ReLU6": ("relu6", "inplace"),
    "torch.nn.Softplus": ("softplus", "beta threshold"),
}
_PYTHON_OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "matmul": "matmul",
    "neg": "neg",
    "abs": "abs",
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
}
_OTHER_FUNCTIONS = {"torch.multiply": "mul", "torch.subtract": "sub", "torch.divide": "div", "torch.absolute": "abs"}
_DEFAULTS = {
    "relu": {"inplace": "False"},
    "softmax": {"dtype": "None", "_stacklevel": "3"},
    "log_softmax": {"dtype": "None", "_stacklevel": "3"},
    "flatten": {"start_dim": "0", "end_dim": "-1"},
    "chunk": {"dim": "0"},
    "add": {"alpha": "1"},
    "sub": {"alpha": "1"},
    "div": {"rounding_mode": "None"},
    "gelu": {"approximate": '"none"'},
    "silu": {"inplace": "False"},
    "leaky_relu": {"negative_slope": "0.01", "inplace": "False"},
    "elu": {"alpha": "1.0", "inplace": "False"},
    "relu6": {"inplace": "False"},
    "hardtanh": {"min_val": "-1.0", "max_val": "1.0", "inplace": "False"},
    "softplus": {"beta": "1.0", "threshold": "20.0"},
}


def spelled_table() -> SpelledTable:
    """Lay out the table by what a node shows."""
    of_tensors = {name: Spelling(name, tuple(parameters.split())) for name, parameters in _OF_TENSORS.items()}
    functions = {f"torch.{name}": spelling for name, spelling in of_tensors.items()}
    functions |= {name: of_tensors[operator] for name, operator in _OTHER_FUNCTIONS.items()}
    functions |= {f"operator.{name}": of_tensors[operator] for name, operator in _PYTHON_OPERATORS.items()}
    functions |= {
        f"torch.nn.functional.{name}": Spelling(name, tuple(parameters.split()))
        for name, parameters in _FUNCTIONAL.items()
    }
    modules = {kind: Spelling(name, tuple(parameters.split())) for kind, (name, parameters) in _MODULES.items()}
    return SpelledTable(functions, of_tensors, modules, _DEFAULTS)
