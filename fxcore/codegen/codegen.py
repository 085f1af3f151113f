"""Python source of a function from nodes, without any change of the nodes."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fxcore.codegen.comments import VerboseStyle, meta_docstring, origin_comment, value_annotation
from fxcore.codegen.globals import GeneratedGlobals
from fxcore.codegen.statements import StatementWriter
from fxcore.node import Node
from fxcore.node_data.namespace import Namespace
from fxcore.nodes.liveness import last_readers


@dataclass
class PythonCode:
    """The parts that run or save a graph as Python."""

    src: str  # definition of the forward function
    globals: dict[str, Any]  # objects by their names in the source
    _lineno_map: dict[int, int | None] | None  # line, counted from the `def`, -> index of its node
    _prologue_start: int = 0  # line of the `def` in `src`


TransformCodeFunc = Callable[[list[str]], list[str]]

# The marker between pieces of the function's body. It holds the index of the node of the next piece.
_COUNTER = re.compile(r"# COUNTER: (\d+)")


class CodeGen:
    """Writer of a graph as a function. Subclasses change its signature, its return and its globals."""

    # Text of a symbolic size in verbose code. Libraries replace it for a while to use another printer.
    _sym_repr: Callable[[Any], str] = staticmethod(repr)

    _body_transformer: TransformCodeFunc | None = None
    _func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the start of the function, up to and with the colon: `def forward(self, a, b):`.

        `free_vars` are the parameters as source; `expanded_def` puts each on a line of its own.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if not expanded_def:
            return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"
        parameters = "".join([_parameter_line(parameter) for parameter in free_vars])
        return f"def {self._func_name}(\n{parameters}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the return statement, not indented. `descs` are comments for the items of a list or tuple."""
        if descs is not None and isinstance(output_args, (list, tuple)):
            return "return " + described_items(output_args, descs, repr_fn or repr)
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Convert the function's arguments to those of the graph's placeholders, in their order."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Convert the value of the graph's output node to the function's result."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names and objects used by the code of `gen_fn_def` and `generate_output`."""
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        style = VerboseStyle(
            stride=include_stride or (verbose and _is_enabled("STRIDE")),  # only verbose code shows the setting
            device=include_device or (verbose and _is_enabled("DEVICE")),
            meta=_is_enabled("META"),
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=tuple(additional_meta or ()),
            sym_repr=type(self)._sym_repr,
        )
        nodes = list(nodes)
        own = {node: node._name for node in nodes}
        # In nearly every graph, values have their own names. To create these one by one takes 1.27 times as long.
        if self._body_transformer is None and namespace.keeps(own.values()):
            with suppress(KeyError):  # NameOrderError, or a value that is not among the nodes
                return _FunctionWriter(self, Namespace(), root_module, style, verbose, record_func, own).write(nodes)
        return _FunctionWriter(self, namespace, root_module, style, verbose, record_func, None).write(nodes)


class BoxedCodeGen(CodeGen):
    """Writer of a function that takes one list of all inputs and empties it, so that inputs can be freed early."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the start of the function and the lines that take the inputs out of the list."""
        names = [re.split("[:=]", parameter)[0].strip() for parameter in free_vars if parameter != "self"]
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        if names:
            takes = [f"{name} = next(args_iter)" for name in names]
            lines += ["args_iter = iter(args_list)", *takes, "args_list.clear()"]
        return "\n    ".join(lines)


class _FunctionWriter:
    """Writer of one graph as one function."""

    def __init__(
        self,
        codegen: CodeGen,
        namespace: Namespace,
        root_module: str,
        style: VerboseStyle,
        verbose: bool,
        record_func: bool,
        names: dict[Node, str] | None,
    ) -> None:
        self._codegen = codegen
        self._style = style
        self._verbose = verbose
        self._record = record_func
        self._has_known_names = names is not None
        self._globals = GeneratedGlobals(namespace, set(names.values()) if names else ())
        paint = (lambda text: style.paint("blue", text)) if style.colored else None
        self._writer = StatementWriter(namespace, root_module, self._globals, paint, names)
        self._free_vars: list[str] = []
        self._return_annotation = ""
        # Pieces of text, and the index of each piece's node; a comment counts with the node before. There are two
        # lists, because tuples burden the garbage collector: a fifth of the time.
        self._texts: list[str] = []
        self._indices: list[int | None] = []
        self._last_comment: str | None = None
        # A statement is one piece with its end. A body transformer gets the two apart, as from torch.fx.
        self._is_single_piece = not (style.meta or record_func or codegen._body_transformer)

    def write(self, nodes: list[Node]) -> PythonCode:
        """Return the code of `nodes`."""
        self._write_body(nodes)
        wrap_statements = self._wrap_statements()
        self._transform_body()
        for name, value in self._codegen.additional_globals():
            self._globals.add(name, value)
        prologue = call_with_known(
            self._codegen.gen_fn_def,
            self._free_vars,
            self._return_annotation,
            expanded_def=self._style.expanded_def,
        )
        code, line_to_node = self._joined(prologue.count("\n") + 1)
        return PythonCode(
            f"\n{wrap_statements}\n\n{prologue}\n{code}",
            self._globals.table,
            _lineno_map=line_to_node,
            _prologue_start=wrap_statements.count("\n") + 4,
        )

    def _write_body(self, nodes: list[Node]) -> None:
        statement, names = self._writer.statement, self._writer.names
        texts, indices = self._texts, self._indices
        is_plain = self._has_known_names and self._is_single_piece and not self._style.colored
        paths, last_reader, verbose = self._writer.paths, last_readers(nodes), self._verbose
        if self._record:
            self._emit(None, f"_rf = {_record('ENTER_GRAPH_PLACEHOLDER_KEY')}; _rf.__enter__()\n")
        for index, node in enumerate(nodes):
            if verbose:
                self._comment(node, index - 1 if index else None)
            op, args = node._op, node._args
            if op == "placeholder":
                text, end = self._placeholder(node), ""
            elif op == "output":
                text, end = self._output(node), "\n"
            else:
                annotation = self._annotation(node) if verbose or node._type is not None else ""
                # A module called with one value, in one step: 0.92 of the time for networks of layers.
                if is_plain and op == "call_module" and len(args) == 1 and type(args[0]) is Node:
                    value = args[0]
                    if node.users and not annotation and not node._kwargs:
                        name, path, argument = node._name, paths[node._target], names[value]
                        if last_reader[value] is node:
                            texts.append(f"{name} = {path}({argument});  {argument} = None\n")
                        else:
                            texts.append(f"{name} = {path}({argument})\n")
                        indices.append(index)
                        continue
                # Before the values to free: without known names, the order of look-ups decides about them.
                text = "" if is_plain else statement(node, annotation)
                # Free the values that no later node reads, and a value that nothing reads: it is there for its effect.
                freed = ""
                for value in node._input_nodes:
                    if last_reader[value] is node:
                        freed = f"{freed} = {names[value]}" if freed else names[value]
                if not node.users:
                    freed = f"{freed} = {names[node]}" if freed else names[node]
                if is_plain:  # nearly always: one text in place of three takes 0.9 of the time
                    texts.append(statement(node, annotation, f";  {freed} = None\n" if freed else "\n"))
                    indices.append(index)
                    continue
                end = f";  {self._style.paint('dim', f'{freed} = None')}\n" if freed else "\n"
            if self._is_single_piece:
                if text or end or node is nodes[-1]:  # the last piece has the index of the last node
                    self._emit(index, text + end)
            else:
                self._emit_pieces(node, index, text, end)
        if self._record:
            self._emit(len(nodes) - 1, "_rf.__exit__(None, None, None)\n")
        if not any(self._texts):
            self._emit(None, "pass\n")

    def _emit(self, index: int | None, text: str) -> None:
        self._texts.append(text)
        self._indices.append(index)

    def _emit_pieces(self, node: Node, index: int, text: str, end: str) -> None:
        """Emit a statement and its end apart, with the lines around them.

        torch.fx gives both to a body transformer in this form.
        """
        if self._style.meta:
            for line in meta_docstring(node):
                self._emit(index, f"{line}\n")
        is_recorded = self._record and node._op not in ("placeholder", "output", "get_attr")
        if is_recorded:
            self._emit(index, f"_rf_{node._name} = {_record(index)}; _rf_{node._name}.__enter__()\n")
        self._emit(index, text)
        self._emit(index, end)
        if is_recorded:
            self._emit(index, f"_rf_{node._name}.__exit__(None, None, None)\n")

    def _comment(self, node: Node, index: int | None) -> None:
        """Emit the node's source line, unless the last comment says the same; `index` belongs to the node before."""
        comment = origin_comment(node, self._style)
        if comment is not None and comment != self._last_comment:
            self._last_comment = comment
            self._emit(index, comment)

    def _annotation(self, node: Node) -> str:
        written = "" if node._type is None else f" : {self._globals.annotation(node._type)}"
        if not self._verbose:
            return written
        return value_annotation(node, self._style) or written

    def _placeholder(self, node: Node) -> str:
        """Add a parameter, and return the line that gives its value another name; "" if the names are equal."""
        annotation = self._annotation(node)
        target = str(node._target)
        default = f" = {self._writer.value(node._args[0])}" if node._args else ""
        description = node.meta.get("desc") if self._style.expanded_def else None
        comment = f"  # {description}" if description is not None else ""
        self._free_vars.append(f"{target}{annotation}{default}{comment}")
        parameter, name = target.replace("*", ""), self._writer.names[node]
        return f"{name} = {parameter}\n" if parameter != name else ""

    def _output(self, node: Node) -> str:
        if node._type is not None:
            self._return_annotation = f" -> {self._globals.annotation(node._type)}"
        text: str = call_with_known(
            self._codegen.generate_output,
            node._args[0],
            descs=node.meta.get("desc") if self._style.expanded_def else None,
            repr_fn=self._writer.value,
        )
        return text

    def _wrap_statements(self) -> str:
        # The registry is torch's. The text then equals torch.fx's, and tracing with either library reads it.
        return "\n".join([f'torch.fx._symbolic_trace.wrap("{name}")' for name in self._writer.wrapped])

    def _transform_body(self) -> None:
        """Let the function of `Graph.on_generate_code` change the body. It gets the pieces in torch.fx's form."""
        transform = self._codegen._body_transformer
        if transform is None:
            return
        pieces: list[str] = []
        current: int | None = None
        for index, text in zip(self._indices, self._texts, strict=True):
            if index != current:
                current = index
                pieces.append(f"# COUNTER: {index}\n")
            if text:
                pieces.append(text)
        self._texts, self._indices, current = [], [], None
        for line in "".join(transform(pieces)).splitlines(keepends=True):
            counter = _COUNTER.search(line)
            if counter is not None:
                current = int(counter.group(1))
            else:
                self._emit(current, line)

    def _joined(self, first_line: int) -> tuple[str, dict[int, int | None]]:
        """Return the body's text, indented, and for each line, from `first_line` on, the index of its node."""
        text, lines = "    ".join([*self._texts, ""]), self._indices.copy()
        # A line counts with the piece that ends it. In most functions each piece is a line: 0.9 of the time.
        is_plain = self._is_single_piece and not self._verbose and all(self._texts)
        if not is_plain or text.count("\n") != len(lines):
            text = "".join(self._texts).lstrip("\n").replace("\n", "\n    ")
            lines = []
            for index, piece in zip(self._indices, self._texts, strict=True):
                lines += [index] * piece.count("\n")
        lines.append(self._indices[-1] if self._indices else None)
        return f"    {text}", dict(enumerate(lines, first_line))


def _record(key: object) -> str:
    return f"torch._C._profiler._RecordFunctionFast('## {key} ##')"


def _is_enabled(what: str) -> bool:
    return os.environ.get(f"FX_GRAPH_SHOW_{what}", "0") == "1"


def call_with_known(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a method of a CodeGen with the options that it takes. Older classes know fewer options.

    A method that takes every option may hand all of them to an older class, so it gets only those that are set.
    """
    known = _parameters(getattr(method, "__func__", method))
    return method(
        *args, **{name: value for name, value in options.items() if (value if known is None else name in known)}
    )


@functools.lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of the parameters of a function; None if it takes every option."""
    parameters = inspect.signature(function).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return None if takes_all else frozenset(parameters)


def _parameter_line(parameter: str) -> str:
    text, hash_sign, comment = parameter.partition("#")
    return f"    {text.rstrip()},  # {comment.lstrip()}\n" if hash_sign else f"    {parameter},\n"


def described_items(items: Sequence[Any], descriptions: Sequence[str], repr_fn: Callable[[Any], str]) -> str:
    """Return the source of a list or tuple with one item per line, and the item's description as a comment."""
    opening, closing = ("(", ")") if isinstance(items, tuple) else ("[", "]")
    lines = [f"    {repr_fn(item)},  # {text}\n" for item, text in zip(items, descriptions, strict=False)]
    return f"{opening}\n{''.join(lines)}{closing}"


class KeywordCodeGen(CodeGen):
    """Writer of a function whose later parameters are keyword-only.

    torch.fx writes all parameters as positional ones. This is no valid Python if one without a default follows one with
    a default.
    """

    def __init__(self, positional: int) -> None:
        """Keep the first `positional` parameters, without `self`, as they are."""
        super().__init__()
        self._positional = positional

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the start of the function, up to and with the colon.

        `*` stands before the first keyword-only parameter.
        """
        free_vars.insert(self._positional, "*")
        return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
