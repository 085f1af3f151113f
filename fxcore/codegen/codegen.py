"""Nodes to Python source. Pure: takes nodes, changes nothing on them."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fxcore.codegen.comments import VerboseStyle, meta_docstring, origin_comment, value_annotation
from fxcore.codegen.globals import GeneratedGlobals
from fxcore.codegen.statements import StatementWriter, path_of_root
from fxcore.node import Node
from fxcore.node_data.namespace import ContestedNameError, Namespace, UncontestedNames
from fxcore.nodes.liveness import values_freed_after, values_freed_in_order


@dataclass
class PythonCode:
    """All that is needed to run or save a graph as Python."""

    src: str  # source of the forward function's definition
    globals: dict[str, Any]  # what the source refers to by name
    _lineno_map: dict[int, int | None] | None  # line, counted from the `def`, -> index of the node that it comes from
    _prologue_start: int = 0  # line of the `def` in `src`


class PlainBody:
    """Statements, and the index of the node that each comes from."""

    def __init__(self) -> None:
        self._statements: list[str] = []
        self._indices: list[int | None] = []

    def write(
        self,
        nodes: list[Node],
        writer: StatementWriter,
        at_edge: Callable[[Node], str],
        annotation: Callable[[Any], str],
    ) -> None:
        """Write `nodes`, in order.

        `at_edge` writes inputs and the output, as no text where there is nothing to do; `annotation` writes types.
        """
        names, arguments, root = writer.names, writer.arguments, writer.root
        statement, call_function, call_method = writer.statement, writer.call_function, writer.call_method
        emit, note = self._statements.append, self._indices.append
        freed_after = values_freed_in_order(nodes)
        for index, node in enumerate(nodes):
            op = node._op
            if op == "placeholder" or op == "output":
                text = at_edge(node)
                if text:
                    emit(text)
                    note(index)
                continue
            if node._type is not None:
                text = statement(node, f" : {annotation(node._type)}")
            elif op == "call_module":
                text = f"{names[node]} = {path_of_root(root, node._target)}({arguments(node._args, node._kwargs)})"
            elif op == "call_function":
                text = call_function(node, "")
            elif op == "call_method":
                text = call_method(node, "")
            else:
                text = statement(node, "")
            freed = freed_after[index]
            if isinstance(freed, Node):
                if node.users:
                    text = f"{text};  {names[freed]} = None"
                else:
                    text = f"{text};  {names[freed]} = {names[node]} = None"
            elif freed is not None or not node.users:
                # A node without readers is kept for its effect alone; its value need not wait for the function's end.
                unread = [*(freed or ()), *(() if node.users else (node,))]
                text = f"{text};  {' = '.join([names[value] for value in unread])} = None"
            emit(text)
            note(index)
        if self._statements:
            note(len(nodes) - 1)  # what comes after the last line counts with the last node
        else:
            emit("pass")
            self._indices += [None, None]

    def pieces(self) -> list[tuple[int | None, str]]:
        """Return each statement with its end, after the index of its node."""
        return [(index, f"{text}\n") for index, text in zip(self._indices, self._statements, strict=False)]

    def lines(self, first_line: int) -> tuple[str, dict[int, int | None]] | None:
        """Return the text, and for each line, from `first_line` on, the index of its node.

        None if a statement has several lines, as a constant's repr may have.
        """
        text = "\n    ".join(["", *self._statements, ""])
        if text.count("\n") != len(self._indices):
            return None
        return text[1:], dict(enumerate(self._indices, first_line))


TransformCodeFunc = Callable[[list[str]], list[str]]

_ContiguousCopy = tuple[int | None, str]

_COUNTER = re.compile(r"# COUNTER: (\d+)")


class CodeGen:
    """Turns a graph into the source of a function. Subclasses change its signature, its return and its globals."""

    # How a symbolic size is written in verbose code; replaced for a while by whoever wants another printer.
    _sym_repr: Callable[[Any], str] = staticmethod(repr)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the start of the function, up to and with the colon: `def forward(self, a, b):`.

        `free_vars` are the parameters as they will be written; `expanded_def` puts each on a line of its own.
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
        """Turn what the function takes into what the graph's placeholders take, in their order."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Turn what the graph's output node holds into what the function returns."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names and objects that the code of `gen_fn_def` and `generate_output` refers to."""
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
            stride=include_stride or (verbose and _is_asked_for("STRIDE")),  # nothing else shows it
            device=include_device or (verbose and _is_asked_for("DEVICE")),
            meta=_is_asked_for("META"),
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=tuple(additional_meta or ()),
            sym_repr=type(self)._sym_repr,
        )
        nodes = list(nodes)
        own_names = UncontestedNames.of([node._name for node in nodes]) if namespace.is_fresh else None
        if own_names is not None and type(self).__module__.startswith(
            "fxcore."
        ):  # others may not want to be asked twice
            try:
                writer = _FunctionWriter(self, own_names, root_module, style, verbose, record_func)
                writer.use_own_names(nodes)
                return writer.write(nodes)
            except ContestedNameError:
                pass  # a function or class that the code mentions is named like a value
        return _FunctionWriter(self, namespace, root_module, style, verbose, record_func).write(nodes)


class _FunctionWriter:
    """Writes one graph as one function."""

    def __init__(
        self,
        codegen: CodeGen,
        namespace: Namespace,
        root_module: str,
        style: VerboseStyle,
        verbose: bool,
        record_func: bool,
    ) -> None:
        self._codegen = codegen
        self._style = style
        self._verbose = verbose
        self._record = record_func
        self._globals = GeneratedGlobals(namespace)
        paint = (lambda text: style.paint("blue", text)) if style.colored else None
        self._writer = StatementWriter(namespace, root_module, self._globals, paint)
        self._free_vars: list[str] = []
        self._return_annotation = ""
        # Pieces of text by the index of the node that they come from; a comment counts with the node before.
        self._body: list[_ContiguousCopy] = []
        self._last_comment: str | None = None
        # Who transforms the body gets a statement and its end apart, as torch.fx hands them over.
        self._pieces_are_seen = codegen._body_transformer is not None
        self._is_plain = not (verbose or record_func or style.meta or style.colored or self._pieces_are_seen)

    def use_own_names(self, nodes: list[Node]) -> None:
        """Let values have the names of their nodes."""
        self._writer.names.update({node: node._name for node in nodes})

    def write(self, nodes: list[Node]) -> PythonCode:
        """Return the code of `nodes`."""
        plain = PlainBody() if self._is_plain else None
        if plain is not None:
            plain.write(nodes, self._writer, self._edge, self._globals.annotation)
        else:
            self._write_body(nodes)
        wrap_statements = self._wrap_statements()
        body = self._transformed_body()
        for name, value in self._codegen.additional_globals():
            self._globals.add(name, value)
        prologue = _call_with_known(
            self._codegen.gen_fn_def,
            self._free_vars,
            self._return_annotation,
            expanded_def=self._style.expanded_def,
        )
        first_line = prologue.count("\n") + 1
        written = plain.lines(first_line) if plain is not None else None
        if written is None:
            lines, line_to_node = _lines(body if plain is None else plain.pieces(), first_line)
            written = "\n".join([f"    {line}" for line in lines]), line_to_node
        code, line_to_node = written
        return PythonCode(
            f"\n{wrap_statements}\n\n{prologue}\n{code}",
            self._globals.table,
            _lineno_map=line_to_node,
            _prologue_start=wrap_statements.count("\n") + 4,
        )

    def _write_body(self, nodes: list[Node]) -> None:
        freed_after = values_freed_after(nodes)
        emit = self._body.append
        if self._record:
            emit((None, f"_rf = {_record('ENTER_GRAPH_PLACEHOLDER_KEY')}; _rf.__enter__()\n"))
        for index, node in enumerate(nodes):
            if self._verbose:
                self._comment(node, index - 1 if index else None)
            op = node._op
            if op == "placeholder":
                statement = self._placeholder(node)
                self._meta(node, index)
                emit((index, f"{statement}\n" if statement else ""))
            elif op == "output":
                statement = self._output(node)
                self._meta(node, index)
                self._body += [(index, statement), (index, "\n")]
            else:
                self._compute(node, index, freed_after.get(node))
        if self._record:
            emit((len(nodes) - 1, "_rf.__exit__(None, None, None)\n"))
        if not any(text for _, text in self._body):
            emit((None, "pass\n"))

    def _comment(self, node: Node, index: int | None) -> None:
        comment = origin_comment(node, self._style)
        if comment is not None and comment != self._last_comment:
            self._last_comment = comment
            self._body.append((index, comment))

    def _annotation(self, node: Node) -> str:
        written = "" if node._type is None else f" : {self._globals.annotation(node._type)}"
        if not self._verbose:
            return written
        return value_annotation(node, self._style) or written

    def _meta(self, node: Node, index: int) -> None:
        if self._style.meta:
            self._body += [(index, f"{line}\n") for line in meta_docstring(node)]

    def _edge(self, node: Node) -> str:
        return self._placeholder(node) if node._op == "placeholder" else self._output(node)

    def _placeholder(self, node: Node) -> str:
        """Add a parameter, and return the statement that gives its value another name; no text if it need not."""
        annotation = self._annotation(node)
        target = str(node._target)
        default = f" = {self._writer.value(node._args[0])}" if node._args else ""
        description = node.meta.get("desc") if self._style.expanded_def else None
        comment = f"  # {description}" if description is not None else ""
        self._free_vars.append(f"{target}{annotation}{default}{comment}")
        parameter, name = target.replace("*", ""), self._writer.names[node]
        return f"{name} = {parameter}" if parameter != name else ""

    def _output(self, node: Node) -> str:
        if node._type is not None:
            self._return_annotation = f" -> {self._globals.annotation(node._type)}"
        return _call_with_known(
            self._codegen.generate_output,
            node._args[0],
            descs=node.meta.get("desc") if self._style.expanded_def else None,
            repr_fn=self._writer.value,
        )

    def _compute(self, node: Node, index: int, freed: list[Node] | None) -> None:
        emit = self._body.append
        annotation = self._annotation(node)
        self._meta(node, index)
        record = self._record and node._op != "get_attr"
        if record:
            emit((index, f"_rf_{node._name} = {_record(index)}; _rf_{node._name}.__enter__()\n"))
        emit((index, self._writer.statement(node, annotation)))
        emit((index, self._end(node, freed)))
        if record:
            emit((index, f"_rf_{node._name}.__exit__(None, None, None)\n"))

    def _end(self, node: Node, freed: list[Node] | None) -> str:
        """Return the end of a statement, with the freeing of values that nobody reads any more."""
        unread = freed or []
        if not node.users:
            unread = [*unread, node]  # kept for its effect alone; its value need not wait for the function's end
        if not unread:
            return "\n"
        targets = " = ".join([self._writer.names[value] for value in unread])
        return f";  {self._style.paint('dim', f'{targets} = None')}\n"

    def _wrap_statements(self) -> str:
        if not self._writer.wrapped:
            return ""
        # torch's registry, not ours: the text is torch.fx's, and tracing with either sees what is in it.
        return "\n".join([f'torch.fx._symbolic_trace.wrap("{name}")' for name in self._writer.wrapped])

    def _transformed_body(self) -> list[_ContiguousCopy]:
        """Give the body to whoever asked for it with `Graph.on_generate_code`, in the form that torch.fx gives."""
        transform = self._codegen._body_transformer
        if transform is None:
            return self._body
        pieces: list[str] = []
        current: int | None = None
        for index, text in self._body:
            if index != current:
                current = index
                pieces.append(f"# COUNTER: {index}\n")
            if text:
                pieces.append(text)
        return _read_counters("".join(transform(pieces)))


def _record(key: object) -> str:
    return f"torch._C._profiler._RecordFunctionFast('## {key} ##')"


def _is_asked_for(what: str) -> bool:
    return os.environ.get(f"FX_GRAPH_SHOW_{what}", "0") == "1"


def _read_counters(text: str) -> list[_ContiguousCopy]:
    body: list[_ContiguousCopy] = []
    current: int | None = None
    for line in text.splitlines(keepends=True):
        counter = _COUNTER.search(line)
        if counter is not None:
            current = int(counter.group(1))
        else:
            body.append((current, line))
    return body


def _lines(body: list[_ContiguousCopy], first_line: int) -> tuple[list[str], dict[int, int | None]]:
    """Split the body into lines and say, for each line number, which node it comes from."""
    lines: list[str] = [""]
    line_to_node: dict[int, int | None] = {}
    index: int | None = None
    for index, text in body:
        line_to_node[len(lines) - 1 + first_line] = index
        first, *others = text.split("\n")
        lines[-1] += first
        for other in others:
            line_to_node[len(lines) - 1 + first_line] = index
            lines.append(other)
    line_to_node[len(lines) - 1 + first_line] = index
    start = next((number for number, line in enumerate(lines) if line), len(lines) - 1)
    return lines[start:], line_to_node


def _call_with_known(method: Callable[..., str], *args: Any, **options: Any) -> str:
    """Call a method of a user's CodeGen with those options that it takes; they joined the interface later."""
    known = _parameters(getattr(method, "__func__", method))
    return method(*args, **{name: value for name, value in options.items() if name in known})


@functools.lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _parameter_line(parameter: str) -> str:
    text, hash_sign, comment = parameter.partition("#")
    return f"    {text.rstrip()},  # {comment.lstrip()}\n" if hash_sign else f"    {parameter},\n"


def described_items(items: Sequence[Any], descriptions: Sequence[str], repr_fn: Callable[[Any], str]) -> str:
    """Return a list or tuple with one item, and its description as a comment, on each line."""
    opening, closing = ("(", ")") if isinstance(items, tuple) else ("[", "]")
    lines = [f"    {repr_fn(item)},  # {text}\n" for item, text in zip(items, descriptions, strict=False)]
    return f"{opening}\n{''.join(lines)}{closing}"
