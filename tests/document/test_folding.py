"""Folded goldens: how long they are, which lines a change touches, and that two branches merge in git."""

from __future__ import annotations

import difflib
import itertools
import subprocess

import pytest
import torch
from torch import nn

from fixtures.documents import document as document_of
from fixtures.models.gpt_like import DecoderBlock, GptLike
from pytest_fxgraph import capture
from pytest_fxgraph.captures.shapes import shapes_recorded
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document import folding
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.folding import changed, changes_between
from pytest_fxgraph.document.generated_code import Graphs, with_code
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.node_names import differs_in_names_at_most
from pytest_fxgraph.goldens.kept_names import document_after


def golden_of(model: nn.Module, before: str | None = None, batch: int = 2) -> str:
    """Return the golden that a test of a model writes; with `before`, the update of that golden."""
    inputs = (torch.zeros(batch, 8, dtype=torch.int64),)
    module = to_graph_module(model.eval(), example_inputs=inputs)
    graphs: Graphs = {}
    with shapes_recorded(module, inputs, None):
        document = build_document(module, graphs=graphs)
    document = with_code(document, graphs)
    if before is not None:
        document = document_after(decode(before, "golden"), document, graphs, "structure")
    return encode(document, folds_code=True)


def changed_lines(before: str, after: str) -> int:
    """Count the lines that a change adds, removes or replaces."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


class LayerScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.gamma


class ScaledBlock(DecoderBlock):
    """A decoder block with a scale behind its attention, as CaiT and DINOv2 have it."""

    def __init__(self, width, heads, context):
        super().__init__(width, heads, context)
        self.scale = LayerScale(width)

    def forward(self, x):
        x = x + self.scale(self.attn(self.ln_1(x)))
        return x + self.down(nn.functional.gelu(self.up(self.ln_2(x))))


class ReluBlock(DecoderBlock):
    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.down(torch.relu(self.up(self.ln_2(x))))


class WideBlock(DecoderBlock):
    def __init__(self, width, heads, context):
        super().__init__(width, heads, context)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)


def gpt(block: type[nn.Module] = DecoderBlock, places: range | tuple[int, ...] = range(12)) -> GptLike:
    model = GptLike(layers=12)
    for place in places:
        model.blocks[place] = block(32, 4, 8)
    return model


@pytest.fixture(scope="module")
def golden() -> str:
    return golden_of(gpt())


def test_a_decoder_of_twelve_layers_has_at_most_250_lines(golden):
    assert golden.count("\n") <= 200
    assert golden.count(" like blocks.*\n") == 36  # nodes, modules and tensors of twelve blocks
    assert golden.count("= blocks_N(") == 12  # in the code


def test_a_scale_in_each_of_twelve_blocks_changes_at_most_twelve_lines(golden):
    assert changed_lines(golden, golden_of(gpt(ScaledBlock), golden)) <= 12


def test_another_batch_changes_at_most_60_lines(golden):
    assert changed_lines(golden, golden_of(gpt(), golden, batch=4)) <= 60


@pytest.mark.parametrize("block", [ReluBlock, WideBlock, ScaledBlock])
@pytest.mark.parametrize("place", [0, 5, 11])
def test_a_change_in_one_block_adds_lines_below_that_block_and_touches_no_other(golden, block, place):
    after = golden_of(gpt(block, (place,)), golden)

    lines = list(difflib.unified_diff(golden.split("\n"), after.split("\n"), lineterm="", n=1))[2:]
    added = [line for line in lines if line.startswith("+")]
    heads = [line for line, following in itertools.pairwise(lines) if line[0] == " " and following[0] == "+"]
    assert added
    assert not [line for line in lines if line.startswith("-")]
    assert all(f"blocks.{place}" in head or f"blocks_{place} =" in head for head in heads)
    assert encode(decode(after, "golden")) == after


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("place", [4, 7])
@pytest.mark.parametrize(("one", "other"), [(ReluBlock, ReluBlock), (ReluBlock, WideBlock), (WideBlock, ScaledBlock)])
def test_two_branches_that_change_two_blocks_merge_in_git(golden, one, other, place, tmp_path):
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    file = tmp_path / "golden.yaml"

    def commit(text: str) -> None:
        file.write_text(text, "utf-8")
        git("add", "golden.yaml")
        git("commit", "-m", "a change")

    git("init", "-b", "trunk")
    commit(golden)
    git("checkout", "-b", "branch")
    commit(golden_of(gpt(one, (3,)), golden))
    git("checkout", "trunk")
    commit(golden_of(gpt(other, (place,)), golden))
    git("merge", "branch")

    both = gpt(one, (3,))
    both.blocks[place] = other(32, 4, 8)
    assert file.read_text("utf-8") == golden_of(both, golden)


def test_changes_are_found_and_applied():
    lines = ("%a = f(%0)", "%b = g(%a)", "return %b")

    assert changes_between(lines, lines) == ()
    assert changes_between(lines, (lines[0], "%c = h(%a)", lines[1], lines[2])) == ("  %a = f(%0)", "+ %c = h(%a)")
    for other in (lines[1:], lines[:1] + lines[2:], ("%c = h()", *lines), (*lines[:2], "return %a"), ()):
        assert changed(lines, changes_between(lines, other)) == other
    assert changed(lines, ("- %z = f()",)) is None
    assert changed(lines, ("* %a = f(%0)",)) is None


def test_a_graph_inside_a_module_of_a_block_is_read_back():
    inner = document_of("%x = input x\nreturn %x", code="def forward(self, x):\n\n    return x\n")
    modules = tuple(
        ModuleRecord(f"layers.{place}.{name}", "torch.nn.ReLU", graph=inner if name == "b" else None)
        for place in range(3)
        for name in "abc"
    )
    whole = GraphDocument(inner.nodes, modules)
    text = encode(whole)

    assert "  block layers.*:\n    a: torch.nn.ReLU()\n    b: torch.nn.ReLU()\n      input x\n" in text
    assert decode(text, "golden") == whole


def test_an_argument_that_begins_with_an_equals_sign_is_read_back():
    node = NodeRecord("a", "call_function", "torch.relu", (), (("key", "="),))
    document = GraphDocument((node,))

    assert decode(encode(document), "golden") == document


class Residual(nn.Module):
    def __init__(self, factor=2):
        super().__init__()
        self.linear, self.factor = nn.Linear(2, 2), factor

    def forward(self, x):
        return x + torch.relu(self.linear(x)) * self.factor


def test_the_blocks_of_a_bare_sequential_are_folded_and_read_back():
    module = to_graph_module(nn.Sequential(*[Residual() for _ in range(3)]))
    graphs: Graphs = {}
    document = with_code(build_document(module, graphs=graphs), graphs)
    text = encode(document, folds_code=True)

    assert "  block *:\n    %linear = self.linear(%0)\n" in text
    assert "  %_1 = 1(%_0) like *\n" in text
    assert differs_in_names_at_most(text, document)
    read = decode(text, "golden")
    assert [node.name for node in read.nodes[:3]] == ["input_1", "_0_linear", "_0_relu"]
    assert all(node.name.isidentifier() for node in read.nodes)
    assert compare_documents(read, document).is_empty


def test_only_so_many_blocks_are_compared_with_all_others(monkeypatch):
    asked = []
    monkeypatch.setattr(folding, "_changes_if_few", lambda *lines: asked.append(lines))
    module = to_graph_module(nn.Sequential(*[Residual(factor) for factor in range(100)]))
    document = build_document(module)

    text = encode(document)

    assert len(asked) == sum(99 - number for number in range(32))  # without a bound, 4,950
    assert differs_in_names_at_most(text, document)


OPERATORS = ["exp", "sin", "cos", "tan", "abs", "neg", "log", "sqrt", "ceil"]


def layers(*orders: list[str]) -> GraphDocument:
    """Return blocks that call operators on their input in an order, and hand the result of exp on."""
    lines, value = ["%x = input x"], "x"
    for number, order in enumerate(orders):
        lines += [f"%layers_{number}_{name} = torch.{name}(%{value}) @ layers.{number}" for name in order]
        value = f"layers_{number}_exp"
    return document_of("\n".join([*lines, f"return %{value}"]))


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        (OPERATORS, []),
        (
            OPERATORS[1:] + OPERATORS[:1],
            ["- %exp = torch.exp(%0)", "  %ceil = torch.ceil(%0)", "+ %exp = torch.exp(%0)"],
        ),
        (OPERATORS[:6], ["- %log = torch.log(%0)", "- %sqrt = torch.sqrt(%0)", "- %ceil = torch.ceil(%0)"]),
        (OPERATORS[::-1], None),  # the same lines, and most at another place
        (OPERATORS[:5], None),  # more than a third of the lines are gone
    ],
)
def test_a_block_that_differs_by_few_lines_is_written_by_its_changes(other, changes):
    text = encode(layers(OPERATORS, OPERATORS, other))

    _, is_like, below = text.partition("  %layers_2 = layers.2(%layers_1) like layers.*\n")
    assert bool(is_like) is (changes is not None)
    assert text.count(" like layers.*") == 2 + (changes is not None)
    if changes is not None:
        assert [line[4:] for line in below.split("\n") if line.startswith("    ")] == changes
    assert decode(text, "golden").nodes[-1] == layers(OPERATORS, OPERATORS, other).nodes[-1]


def tensors(*groups: tuple[str, str]) -> list[str]:
    """Return the lines of tensors that are named by letters below a path, and read them back."""
    paths = [f"{path}.{letter}" for path, letters in groups for letter in letters]
    document = GraphDocument((), state=tuple(StateRecord(path, "buffer", "int64[]") for path in paths))
    text = encode(document)
    assert decode(text, "golden") == document
    return [line[2:].removesuffix(": buffer int64[]") for line in text.split("\n") if line.startswith("  ")][1:]


@pytest.mark.parametrize(
    ("count", "letters", "is_folded"),
    [
        (1, "abcdefghijkl", False),
        (2, "abcdefg", True),
        (2, "abcdef", False),
        (3, "abcd", True),
        (3, "abc", False),
        (5, "abc", True),
        (9, "a", False),
    ],
)
def test_layers_are_folded_where_that_saves_four_lines(count, letters, is_folded):
    lines = tensors(*[(f"h.{number}", letters) for number in range(count)])

    if is_folded:
        heads = [f"h.{number} like h.*" for number in range(count)]
        assert lines == ["block h.*:", *(f"  {letter}" for letter in letters), *heads]
    else:
        assert lines == [f"h.{number}.{letter}" for number in range(count) for letter in letters]


def test_tensors_of_a_layer_that_is_unlike_the_others_are_written_whole():
    lines = tensors(("h.0", "abcdefg"), ("h.1", "ABCDEFG"), ("h.2", "abcdefg"))

    assert lines[8:] == ["h.0 like h.*", *(f"h.1.{letter}" for letter in "ABCDEFG"), "h.2 like h.*"]


def test_a_layer_may_have_a_line_more_at_two_places():
    lines = tensors(("h.0", "abcdefg"), ("h.1", "abcdefg"), ("h.2", "apbcdeqfg"))

    assert lines[8:10] == ["h.0 like h.*", "h.1 like h.*"]
    assert [line.split(":")[0] for line in lines[10:]] == ["h.2 like h.*", "    a", "  + p", "    e", "  + q"]


def test_layers_that_a_model_runs_twice_with_other_parts_are_folded_twice_and_read_back():
    lines = tensors(("h.0", "abcdefg"), ("h.1", "abcdefg"), ("h.0", "hijklmn"), ("h.1", "hijklmn"))

    assert [line for line in lines if not line.startswith(" ")] == [
        "block h.*:",
        "h.0 like h.*",
        "h.1 like h.*",
        "block h.* (2):",
        "h.0 like h.* (2)",
        "h.1 like h.* (2)",
    ]


class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        return torch.relu(self.conv3(torch.sigmoid(self.conv2(torch.tanh(self.conv1(x))))))


def test_shared_bodies_of_a_stage_that_stands_twice_in_a_graph_have_names_of_their_own():
    stages = nn.Sequential(*[nn.Sequential(*[Unit() for _ in range(4)]) for _ in range(2)])
    # Dynamo reads all parameters of a stage before it calls the stage.
    document = build_document(to_graph_module(capture(stages, torch.rand(2, 4), frontend="dynamo")))

    text = encode(document)

    assert "block 0.*:" in text
    assert "block 0.* (2):" in text
    assert encode(decode(text, "g.yaml")) == text


def test_layers_below_a_path_that_a_block_cannot_name_are_written_whole():
    assert tensors(("a-b.0", "abcdefg"), ("a-b.1", "abcdefg"))[0] == "a-b.0.a"


@pytest.mark.parametrize(("depth", "is_folded"), [(1, True), (15, True), (16, False)])
def test_layers_are_looked_for_within_fifteen_numbered_modules(depth, is_folded):
    path = ".".join("0" * depth)

    lines = tensors((f"{path}.0", "abcdefg"), (f"{path}.1", "abcdefg"))

    assert (f"{path}.1 like {path}.*" in lines) is is_folded


def test_layers_in_layers_are_folded_in_the_body_of_the_outer_ones():
    groups = [(f"s.{outer}.b.{inner}", "abcdefg") for outer in range(3) for inner in range(2)]

    assert tensors(*groups) == [
        "block s.*:",
        "  block b.*:",
        *(f"    {letter}" for letter in "abcdefg"),
        "  b.0 like b.*",
        "  b.1 like b.*",
        *(f"s.{number} like s.*" for number in range(3)),
    ]


def test_changes_of_a_long_block_are_few_lines_though_most_lines_are_alike():
    lines = ("%a = f(%0)", "%b = g(%a)") * 101

    assert changes_between(lines, lines[1:]) == ("- %a = f(%0)",)


def test_tensors_of_unlike_layers_beyond_those_that_are_compared_are_written_whole():
    unlike = [(f"h.{n}", "".join(chr(0x4E00 + 7 * n + place) for place in range(7))) for n in range(2, 42)]

    lines = tensors(("h.0", "abcdefg"), ("h.1", "abcdefg"), *unlike)

    heads = [line for line in lines if " like " in line or line.endswith(":")]
    assert heads == ["block h.*:", "h.0 like h.*", "h.1 like h.*"]
