"""The text of a document: one line per node, module, tensor and note, with repeated blocks written once.

    input x  # float32[2, 4]
    %linear = self.linear(%x)  # float32[2, 5]
    return %linear
    modules:
      linear: torch.nn.Linear(in_features=4, out_features=5, bias=True)
    state:
      linear.weight: parameter float32[5, 4]

Golden files, inline goldens, `fxgraph show` and reports hold this text. `document/text_reader` reads it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from pytest_fxgraph.document.costs import COUNTS, CostBlock, CostRecord
from pytest_fxgraph.document.folding import Body, Items, NotFoldableError, Run, blocks_of_level, folded_lines, indented
from pytest_fxgraph.document.literals import REFERENCE, references, string_text
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.spelling import argument_text, fact_text, fits_in_a_block, is_seen_line, key_text, raw_text

NO_NODES = "no nodes"
_PATH = re.compile(r"[\w.-]+\Z")
_FUNCTION = re.compile(r"(?!self\.)[A-Za-z_][\w.<>]*\Z")
_INPUT = re.compile(r"\*{0,2}\w+\Z")
_METHOD = re.compile(r"\w+\Z")
_RECEIVER = re.compile(r"%\w+\Z")
_KIND = re.compile(r"[\w.<>#]+\Z")
_NOT_IN_NAMES = re.compile(r"\W")
_COUNT = re.compile(r"_\d+\Z")
_CALLS = ("call_module", "call_function")  # most nodes

_Record = TypeVar("_Record", bound="ModuleRecord | StateRecord")


def document_lines(document: GraphDocument, *, folds: bool = True) -> list[str]:
    """Return the lines of a document. Without `folds`, each block is written out under the names of the document."""
    lines = graph_lines(document, folded_graph(document) if folds else None)
    for title, section in sections(document, folds=folds):
        lines += titled(title, section)
    return lines + titled("code", code_lines(document.code)) if document.code else lines


def titled(title: str, lines: Sequence[str]) -> list[str]:
    """Return lines below their title."""
    return [f"{title}:", *indented(lines)]


def folded_graph(document: GraphDocument) -> GraphText | None:
    """Return the nodes with their blocks folded; None if no block can be folded."""
    if not any(node.scope for node in document.nodes):
        return None
    try:
        return GraphText(document.nodes)
    except NotFoldableError:
        return None


def graph_lines(document: GraphDocument, folded: GraphText | None) -> list[str]:
    """Return the lines of the nodes, folded or whole. A golden of costs or breaks alone has no line."""
    if not document.nodes:
        return [] if document.notes or document.cost is not None else [NO_NODES]
    if folded is not None:
        return seen_lines(folded.text)
    texts, lines = Texts(), []
    for node in document.nodes:
        texts[f"%{node.name}"] = f"%{node.name}"
        lines.append(node_line(node, node.name, texts, ""))
    return seen_lines(lines)


def sections(
    document: GraphDocument, *, folds: bool, inside: Callable[[GraphDocument], list[str]] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the lines of each section below the graph, but not the code.

    `inside` writes a graph inside a module; without it, such a graph is written out.
    """
    if document.modules:
        texts = functools.partial(module_texts, inside=inside)
        yield "modules", seen_lines(_record_lines(document.modules, texts, folds))
    if document.state:
        yield "state", seen_lines(_record_lines(document.state, state_texts, folds))
    yield from short_sections(document)


def short_sections(document: GraphDocument) -> Iterator[tuple[str, list[str]]]:
    """Yield the sections that have no blocks."""
    if document.notes:
        yield "notes", [_plain_or_quoted(note) for note in document.notes]
    if document.symbols:
        yield "symbols", [_plain_or_quoted(symbol) for symbol in document.symbols]
    if document.cost is not None:
        yield "cost", seen_lines(list(_cost_lines(document.cost)))


def seen_lines(lines: list[str]) -> list[str]:
    """Quote each line with a character that editors change or nobody sees."""
    joined = "".join(lines)
    if joined.isascii() and joined.isprintable():
        return lines
    return [line if not line or is_seen_line(line.lstrip()) else _quoted_line(line) for line in lines]


def _quoted_line(line: str) -> str:
    bare = line.lstrip(" ")
    return f"{line[: len(line) - len(bare)]}{raw_text(bare)}"


def _plain_or_quoted(text: str) -> str:
    return text if is_seen_line(text) and not text.startswith(("~", "#")) else raw_text(text)


class Texts(dict[str, str]):
    """Spelling of argument texts in one block; a reference from outside the block becomes the next input, `%0`."""

    def __init__(self, *, is_block: bool = False, refuses_unknown: bool = False) -> None:
        self._is_block = is_block
        self._refuses_unknown = refuses_unknown
        self.inputs: list[str] = []

    def __missing__(self, text: str) -> str:
        if "%" not in text:
            spelt = argument_text(text)
        elif _RECEIVER.match(text):
            if self._refuses_unknown:
                raise KeyError(text)
            spelt = f"%{len(self.inputs)}" if self._is_block else text
            self.inputs.append(text)
        else:
            return argument_text(REFERENCE.sub(lambda found: self[f"%{found[1]}"] if found[1] else found[0], text))
        self[text] = spelt
        return spelt


# Nodes.


def node_line(node: NodeRecord, own: str, texts: Texts, base: str) -> str:
    """Write a node of the block `base`, a module path that ends in a dot, under its own name in the block."""
    _, op, target, args, kwargs, value, effects, scope, _, meta, name_from = node
    spelt = texts.__getitem__
    call, facts = _call_and_facts(op, target, value, scope, base)
    # Arguments come before effects, because the order decides about the numbers of a block's inputs.
    joined = ", ".join(map(spelt, args))
    if kwargs:
        by_keyword = ", ".join([f"{key_text(key)}={spelt(text)}" for key, text in kwargs])
        joined = f"{joined}, {by_keyword}" if joined else by_keyword
    if effects or meta or name_from is not None:
        facts = _with_rare_facts(facts, node, spelt)
    if call is not None and op in _CALLS:
        return f"%{own} = {call}{joined}){facts}"
    if op == "placeholder" and call is not None and len(args) < 2 and not kwargs:
        alias = "" if target == own else f" as %{own}"
        line = f"input {target}{alias}{f' = {joined}' if joined else ''}"
    elif op == "output" and own == target == "output":
        line = f"return {joined}" if joined else "return"
    elif call is None or op == "placeholder" or (op == "get_attr" and joined):
        line = f"%{own} = {op} {string_text(target)}({joined})"
    elif op == "get_attr":
        line = f"%{own} = {call}"
    elif args and _RECEIVER.match(receiver := spelt(args[0])):
        line = f"%{own} = {receiver}{call}{joined[len(receiver) + len(', ') :]})"
    else:
        line = f"%{own} = {call}{joined})"
    return line + facts


@functools.lru_cache(maxsize=16_384)
def _call_and_facts(op: str, target: str, value: str | None, scope: str | None, base: str) -> tuple[str | None, str]:
    """Return the text before the arguments of a call (None for an odd target), and the facts that most nodes have."""
    facts = "" if value is None else f"; {fact_text(value)}"
    if scope is not None and (not base or scope != base[:-1]):
        facts += f"; in {fact_text(scope[len(base) :])}"
    return _call(op, target, base), facts and f"  # {facts[2:]}"


def _call(op: str, target: str, base: str) -> str | None:
    """Return the text before the arguments of a call, or the text of an attribute; None for an odd target."""
    if op == "call_function":
        return f"{target}(" if _FUNCTION.match(target) else None
    if op == "call_method":
        return f".{target}(" if _METHOD.match(target) else None
    if op in ("call_module", "get_attr"):
        is_plain = target.startswith(base) and len(target) > len(base) and _PATH.match(target)
        return f"self.{target[len(base) :]}{'(' if op == 'call_module' else ''}" if is_plain else None
    return "" if op == "placeholder" and _INPUT.match(target) else None


def _with_rare_facts(facts: str, node: NodeRecord, spelt: Callable[[str], str]) -> str:
    """Add the facts that few nodes have to the text behind a node."""
    text = facts
    if node.effects:
        text += f"; effects: {', '.join([_effect_text(effect, spelt) for effect in node.effects])}"
    if node.meta:
        text += f"; meta: {', '.join([f'{key_text(key)}={spelt(text)}' for key, text in node.meta])}"
    if node.name_from is not None:
        text += f"; named by {fact_text(node.name_from)}"
    return text if facts else f"  # {text[2:]}"


def _effect_text(effect: str, spelt: Callable[[str], str]) -> str:
    kind, reference = _kind_and_reference(effect)
    if reference:
        return f"{kind} {spelt(reference)}"
    if "%" in effect:
        effect = REFERENCE.sub(lambda found: spelt(f"%{found[1]}") if found[1] else found[0], effect)
    return argument_text(effect)


@functools.lru_cache(maxsize=16_384)
def _kind_and_reference(effect: str) -> tuple[str, str]:
    """Split nearly every effect at its blank, for the substitution of references takes longer; others have ""."""
    kind, _, reference = effect.partition(" ")
    return kind, reference if kind in ("read", "write") and _RECEIVER.match(reference) else ""


class _Level(NamedTuple):
    """The names of one level of a graph: of the outermost, or inside a block."""

    texts: Texts
    base: str
    own: Sequence[str] | Mapping[int, str]  # the name of each node, by position
    prefix: str  # of names where no block is
    taken: list[str]
    flat: dict[int, str]  # names of the nodes, blocks included, where no block is


class Ends(NamedTuple):
    """The nodes at the border of a block."""

    inputs: list[str]  # references in the document: "%add"
    outputs: list[tuple[str, str]]  # reference in the document, and name in the block
    flat: Mapping[int, str]  # names where no block is, by position


class GraphText(Items[_Level, Ends]):
    """Writes the nodes of a graph, with its blocks folded.

    Raises NotFoldableError if two values would have one name.
    """

    has_names = True

    def __init__(self, nodes: Sequence[NodeRecord]) -> None:
        super().__init__([None if node.op in ("placeholder", "output") else node.scope for node in nodes])
        self._nodes = nodes
        self._last_use: dict[str, int] = {}
        self._note_uses()
        self.blocks = blocks_of_level(self, 0, len(nodes), "")  # the outermost
        level = _Level(Texts(), "", [node.name for node in nodes], "", [], {})
        self.text = folded_lines(self, self.blocks, 0, len(nodes), level)
        self.flat_names = level.flat  # of all nodes
        _check_unique(level.taken)
        _check_unique(list(level.flat.values()))

    def _note_uses(self) -> None:
        uses = self._last_use
        for position, node in enumerate(self._nodes):
            for texts in (node.args, node.effects):
                for text in texts:
                    if text[:1] == "%" and _RECEIVER.match(text):
                        uses[text] = position
                    elif "%" in text:
                        uses.update([(f"%{name}", position) for name in references(text)])
            for _, text in (*node.kwargs, *node.meta):
                uses.update([(f"%{name}", position) for name in references(text)])

    def lines(self, start: int, stop: int, context: _Level) -> Iterator[str]:
        """Write nodes that are in no block of this level."""
        texts, base = context.texts, context.base
        for position in range(start, stop):
            node, own = self._nodes[position], context.own[position]
            texts[f"%{node.name}"] = f"%{own}"
            context.taken.append(own)
            context.flat[position] = context.prefix + decoded_name(own) if base else own
            yield node_line(node, own, texts, base)

    def new_body(self, run: Run) -> Body[Ends]:
        """Write the nodes of a block under names of its own, and its results behind `return`."""
        base, prefix = f"{run.path}.", block_prefix(run.path)
        level = _Level(Texts(is_block=True), base, self._names_inside(run, prefix), prefix, [], {})
        lines = folded_lines(self, blocks_of_level(self, *run[:2], base), *run[:2], level)
        _check_unique(level.taken)
        made = [f"%{node.name}" for node in self._nodes[run.start : run.stop]]
        outputs = [(each, level.texts[each]) for each in made if self._last_use.get(each, 0) >= run.stop]
        lines.append(f"return {', '.join([own for _, own in outputs])}".rstrip())
        return Body(tuple(lines), Ends(level.texts.inputs, outputs, level.flat))

    def head(self, block: Run, inside: Ends, context: _Level) -> str:
        """Write the results, the path and the inputs of a block."""
        path = block.path[len(context.base) :]
        names = self.result_names(block, inside, context.base)
        context.texts.update({flat: f"%{name}" for (flat, _), name in zip(inside.outputs, names, strict=True)})
        context.taken.extend(names)
        context.flat.update(inside.flat)
        made = f"{', '.join([f'%{name}' for name in names])} = " if names else ""
        return f"{made}{path}({', '.join([context.texts[each] for each in inside.inputs])})"

    @staticmethod
    def result_names(block: Run, inside: Ends, base: str) -> list[str]:
        """Return the names that the results of a block have around it: the path, and which of several it is."""
        result = encoded_name(_NOT_IN_NAMES.sub("_", block.path[len(base) :]))
        return [result if len(inside.outputs) == 1 else f"{result}_{own[1:]}" for _, own in inside.outputs]

    def _names_inside(self, run: Run, prefix: str) -> Mapping[int, str]:
        """Name the nodes of a block: as the golden did before, else counted within the block."""
        names: dict[int, str] = {}
        for position in range(run.start, run.stop):
            name = self._nodes[position].name
            if name.startswith(prefix) and len(name) > len(prefix):
                names[position] = encoded_name(name[len(prefix) :])
        if len(names) == run.stop - run.start:
            return names
        taken = set(names.values())
        counts: dict[str, int] = {}
        for position in range(run.start, run.stop):
            if position in names:
                continue
            stem = _COUNT.sub("", self._nodes[position].name) or self._nodes[position].name
            name = encoded_name(stem)
            while name in taken:
                counts[stem] = counts.get(stem, 0) + 1
                name = encoded_name(f"{stem}_{counts[stem]}")
            names[position] = name
            taken.add(name)
        return names


def _check_unique(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise NotFoldableError


def block_prefix(path: str) -> str:
    """Return the beginning of the names that a document gives to the nodes of a block."""
    prefix = f"{_NOT_IN_NAMES.sub('_', path.rstrip('.'))}_"
    return f"_{prefix}" if prefix[0].isdigit() else prefix  # as the tracer names the layers of a Sequential


def encoded_name(name: str) -> str:
    """Return a name as it stands in a block, where names of digits are inputs."""
    return f"_{name}" if name[0] in "_0123456789" else name


def decoded_name(name: str) -> str:
    """Return a name that stands in a block as it was before `encoded_name`."""
    return name.removeprefix("_")


# Modules, tensors and costs.


class _Records(Items[str, None], Generic[_Record]):
    """Writes modules or tensors, with their blocks folded."""

    has_names = False

    def __init__(self, records: Sequence[_Record], texts_of: Callable[[Sequence[_Record], str], list[str]]) -> None:
        super().__init__([record.path.rpartition(".")[0] for record in records])
        self._records = records
        self._texts_of = texts_of

    def lines(self, start: int, stop: int, context: str) -> list[str]:
        """Write records that are in no block of this level."""
        return self._texts_of(self._records[start:stop], context)

    def new_body(self, run: Run) -> Body[None]:
        """Write the records of a block."""
        return Body(tuple(self.folded(*run[:2], f"{run.path}.")), None)

    def folded(self, start: int, stop: int, base: str) -> list[str]:
        """Write the records of a level with its blocks; each line of a graph inside a module counts."""
        lines = folded_lines(self, blocks_of_level(self, start, stop, base), start, stop, base)
        return "\n".join(lines).split("\n") if any("\n" in line for line in lines) else lines

    def head(self, block: Run, inside: None, context: str) -> str:
        """Write the path of a block."""
        del inside
        return block.path[len(context) :]


def _record_lines(
    records: Sequence[_Record], texts_of: Callable[[Sequence[_Record], str], list[str]], folds: bool
) -> list[str]:
    if folds:
        return _Records(records, texts_of).folded(0, len(records), "")
    return "\n".join(texts_of(records, "")).split("\n")


@functools.lru_cache(maxsize=16_384)  # a long path takes the pattern four times as long as the cache
def _path_text(path: str, base: str) -> str:
    """Write a path relative to its block; an odd one in quotes."""
    return path[len(base) :] if path.startswith(base) and _PATH.match(path) else string_text(path)


def _same_as_text(path: str, base: str) -> str:
    if base and path.startswith(base):
        return f"; is self.{fact_text(path[len(base) :])}"
    return f"; is {fact_text(path) if not path.startswith('self.') else raw_text(path)}"


def module_texts(
    modules: Iterable[ModuleRecord], base: str, inside: Callable[[GraphDocument], list[str]] | None = None
) -> list[str]:
    """Write modules on a line each; the lines of a graph inside a module follow in its text."""
    texts = []
    for module in modules:
        text = f"{_path_text(module.path, base)}: {_module_facts(module.kind, module.config, module.training)}"
        if module.same_as is not None:
            text += _same_as_text(module.same_as, base)
        if module.name_from is not None:
            text += f"; named by {fact_text(module.name_from)}"
        if module.graph is not None:
            lines = document_lines(module.graph, folds=False) if inside is None else inside(module.graph)
            text = "\n".join([text, *indented(lines)])
        texts.append(text)
    return texts


@functools.lru_cache(maxsize=4096)
def _module_facts(kind: str, config: tuple[tuple[str, str], ...], training: bool | None) -> str:
    texts = ", ".join([f"{key_text(name)}={argument_text(text)}" for name, text in config])
    mode = "" if training is None else "; training" if training else "; not training"
    return f"{kind if _KIND.match(kind) else string_text(kind)}({texts}){mode}"


def state_texts(state: Iterable[StateRecord], base: str) -> list[str]:
    """Write tensors on a line each."""
    return [f"{_path_text(each.path, base)}: {_state_facts(each[1:], base)}" for each in state]


@functools.lru_cache(maxsize=4096)  # the tensors of a model are of few sorts
def _state_facts(facts: tuple[str, str, bool, bool, str | None, str | None, str | None, str | None], base: str) -> str:
    kind, value, requires_grad, persistent, same_as, content, storage, name_from = facts
    text = f"{kind} {fact_text(value)}"
    if content is not None:
        text += f"; = {fact_text(content)}"
    if requires_grad != (kind == "parameter"):
        text += "; requires grad" if requires_grad else "; no grad"
    if not persistent:
        text += "; not persistent"
    if storage is not None:
        text += f"; storage {fact_text(storage)}"
    if name_from is not None:
        text += f"; named by {fact_text(name_from)}"
    return text if same_as is None else text + _same_as_text(same_as, base)


def _cost_lines(block: CostBlock) -> Iterator[str]:
    peak = f"peak_activation={block.peak_activation}, peak_at={string_text(block.peak_at)}"
    operators = f", uncounted=[{', '.join(map(string_text, block.uncounted))}]" if block.uncounted else ""
    yield f"total: {_counts(block.total)}, {peak}{operators}"
    for path, record in block.modules:
        yield f"{_path_text(path, '') if path else string_text(path)}: {_counts(record)}"


def _counts(record: CostRecord) -> str:
    return ", ".join([f"{name}={getattr(record, name)}" for name in COUNTS])


def code_lines(code: str) -> list[str]:
    """Return the lines of code, in quotes if an editor could change them unseen."""
    lines = code.split("\n")
    is_plain = fits_in_a_block(code) and not all(line.startswith('"') for line in lines)
    return lines if is_plain else [string_text(line) for line in lines]
