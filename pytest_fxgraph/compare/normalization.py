"""Which functions, methods and modules are spellings of one operator, and how their parameters are called there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord


@dataclass(frozen=True)
class Spelling:
    """One way to write an operator: parameters in the order of the call, by the names of the operator."""

    operator: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class SpellingTable:
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


def spelling_table() -> SpellingTable:
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
    return SpellingTable(functions, of_tensors, modules, _DEFAULTS)


def normalized_spelling(document: GraphDocument) -> GraphDocument:
    """Give a document in which `x.relu()`, `torch.relu(x)`, `F.relu(x)` and `nn.ReLU()` are one and the same."""
    table = spelling_table()
    modules = {module.path: module for module in document.modules}
    nodes = tuple(_spelled(node, modules, table) for node in document.nodes)
    replaced = {
        node.target for node, other in zip(document.nodes, nodes, strict=True) if node.op == "call_module" != other.op
    }
    kept = tuple(
        replace(module, graph=module.graph and normalized_spelling(module.graph))
        for module in document.modules
        if module.path not in replaced
    )
    return replace(document, nodes=nodes, modules=kept)


def _spelled(node: NodeRecord, modules: Mapping[str, ModuleRecord], table: SpellingTable) -> NodeRecord:
    if node.op == "call_function":
        return _respelled(node, table.functions.get(node.target), (), table)
    if node.op == "call_method":
        return _respelled(node, table.methods.get(node.target), (), table)
    module = modules.get(node.target) if node.op == "call_module" else None
    if module is None or len(node.args) != 1 or node.kwargs:
        return node
    spelling = table.modules.get(module.kind)
    if spelling is None or not _is_understood(dict(module.config), spelling, table):
        return node
    return _respelled(node, Spelling(spelling.operator, ("input",)), module.config, table)


def _is_understood(config: Mapping[str, str], spelling: Spelling, table: SpellingTable) -> bool:
    """Tell whether a configuration says all that the operator asks for, and nothing else, which may mean anything.

    A document leaves unsaid what a constructor has as None or False by default; the operator must agree.
    """
    unsaid = set(spelling.parameters) - config.keys()
    agrees = all(table.default(spelling.operator, name) in ("None", "False") for name in unsaid)
    return agrees and config.keys() <= set(spelling.parameters)


def _respelled(
    node: NodeRecord, spelling: Spelling | None, more: Sequence[tuple[str, str]], table: SpellingTable
) -> NodeRecord:
    """Write a call with the operator's name, its input, and by keyword what is not the default."""
    if spelling is None or len(node.args) > len(spelling.parameters):
        return node
    written = dict(zip(spelling.parameters, node.args, strict=False))
    keywords = [*node.kwargs, *more]
    if not written.keys().isdisjoint(keyword for keyword, _ in keywords):
        return node
    written.update(keywords)
    first = written.pop("input", None)
    if first is None or (not more and not written.keys() <= set(spelling.parameters)):
        return node
    kwargs = [(name, text) for name, text in sorted(written.items()) if text != table.default(spelling.operator, name)]
    return _with_operands(node, f"torch.{spelling.operator}", first, kwargs)


def _with_operands(node: NodeRecord, target: str, first: str, kwargs: Sequence[tuple[str, str]]) -> NodeRecord:
    """Keep the second operand positional, so that what is commutative is still seen to be."""
    args = [first, *(text for keyword, text in kwargs if keyword == "other")]
    rest = tuple((keyword, text) for keyword, text in kwargs if keyword != "other")
    return replace(node, op="call_function", target=target, args=tuple(args), kwargs=rest)
