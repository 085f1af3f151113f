from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.renamed import RenamedGoldens, graph_digest, may_belong
from pytest_fxgraph.report.outcome import Outcome

GRAPH = "%x = input x\n%a = torch.relu(%x)\n%b = operator.add(%a, %x)\nreturn %b"
NEW = PurePosixPath("test_a/test_new.yaml")


def text(graph: str = GRAPH, code: str = "def forward(self, x): ...") -> str:
    return encode(document(graph, code=code))


def missing(level: str = "structure", graph: str = GRAPH) -> Outcome:
    digest = graph_digest(text(graph), level)
    return Outcome("test_a.py::test_new", f"golden/{NEW}", level, "missing", graph_digest=digest, variant="@torch-2.0")


def source(tmp_path, files: dict[str, str], outcome: Outcome) -> str | None:
    for name, content in files.items():
        (tmp_path / "golden" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "golden" / name).write_text(content, encoding="utf-8")
    layout = GoldenLayout(tmp_path, "golden")
    found = RenamedGoldens(layout, map(PurePosixPath, files)).source_of(NEW, outcome)
    return None if found is None else str(found.base)


def test_names_of_values_and_code_do_not_tell_two_texts_of_a_graph_apart():
    renamed = GRAPH.replace("%a", "%other").replace("%b", "%a")

    assert graph_digest(text(renamed, "other"), "structure") == graph_digest(text(), "structure")
    assert graph_digest(text(renamed), "exact") != graph_digest(text(), "exact")


@pytest.mark.parametrize(
    "other", [GRAPH.replace("relu", "gelu"), GRAPH.replace("(%a, %x)", "(%x, %a)"), GRAPH.replace("input x", "input y")]
)
def test_another_operator_wire_or_input_does(other):
    assert graph_digest(text(other), "structure") != graph_digest(text(), "structure")


def test_the_golden_of_the_nearest_name_is_the_source(tmp_path):
    files = dict.fromkeys(["test_z/test_new.yaml", "test_a/test_q.yaml", "test_a/test_newer.yaml"], text())

    assert source(tmp_path, files, missing()) == "test_a/test_newer.yaml"


def test_what_was_received_variants_alone_and_other_graphs_are_no_sources(tmp_path):
    files = {
        "test_a/test_x.received.yaml": text(),
        "test_a/test_y@torch-2.0.yaml": text(),
        "test_a/test_z.yaml": text(GRAPH.replace("relu", "gelu")),
    }

    assert source(tmp_path, files, missing()) is None


def test_a_damaged_golden_is_no_source(tmp_path):
    damaged = text().replace("code:", "cod:")

    assert source(tmp_path, {"test_a/test_x.yaml": damaged}, missing()) is None


def test_the_file_that_serves_the_torch_that_ran_is_compared(tmp_path):
    other = text(GRAPH.replace("relu", "gelu"))
    served = {"test_a/test_x.yaml": other, "test_a/test_x@torch-2.0.yaml": text()}

    assert source(tmp_path, served, missing()) == "test_a/test_x.yaml"
    assert source(tmp_path, {**served, "test_a/test_x@torch-2.0.yaml": other}, missing()) is None


@pytest.mark.parametrize(
    ("golden", "expected"),
    [
        ("golden/test_a/test_c.yaml", False),
        ("golden/test_a/TestB.test_c.yaml", True),
        ("golden/test_a/TestB.test_c.2.yaml", True),
        ("golden/test_a/TestB.test_c.name.yaml", True),
        ("golden/test_a/TestB.test_c.name@torch-2.0.yaml", True),
        ("golden/test_a/TestB.test_cd.yaml", False),
        ("golden/test_a/TestB.test_c-x.yaml", False),
        ("golden/test_b/TestB.test_c.yaml", False),
    ],
)
def test_a_golden_may_belong_to_a_test_if_it_is_named_like_it(golden, expected):
    assert may_belong(PurePosixPath(golden), "tests/test_a.py::TestB::test_c") is expected


@pytest.mark.parametrize("params", ["a b", "a::b[c]", "x" * 200])
def test_parameters_are_part_of_the_name(params):
    from pytest_fxgraph.goldens.files import golden_path

    own = golden_path("test_a.py", [], "test_c", params, "name")

    assert may_belong(own, f"test_a.py::test_c[{params}]")
    assert not may_belong(own, "test_a.py::test_d")


def test_a_golden_that_is_no_text_is_no_source(tmp_path):
    (tmp_path / "golden/test_a").mkdir(parents=True)
    (tmp_path / "golden/test_a/test_x.yaml").write_bytes(b"\xff")

    unused = RenamedGoldens(GoldenLayout(tmp_path, "golden"), [PurePosixPath("test_a/test_x.yaml")])
    assert unused.source_of(PurePosixPath(NEW), missing()) is None


def test_any_golden_may_belong_to_a_test_outside_of_rootdir():
    assert may_belong(PurePosixPath("golden/test_a/test_c.yaml"), "../test_b.py::test_d")
