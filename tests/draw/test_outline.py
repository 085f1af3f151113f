from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.outline import outline_lines

BEFORE = "%x = input x : float32[2]\n%a = torch.neg(%x) : float32[2] @ m\n%b = torch.exp(%a, 1) @ m\nreturn %b"


def lines(before: str, after: str | None = None) -> list[str]:
    picture = picture_of(document(before), document(after) if after else None, title="")
    return [*outline_lines(picture, picture.opened(40))]


def test_nodes_stand_below_their_module_with_what_they_read():
    assert lines(BEFORE) == [
        "  %x  x  # 2",
        "  m",
        "    %a  neg  <- %x  # 2",
        "    %b  exp(1)  <- %a",
        "  %output  output  <- %b",
    ]


def test_what_changed_is_marked_with_from_what_to_what():
    found = lines(BEFORE, BEFORE.replace("torch.exp(%a, 1)", "torch.exp(%a, 2)"))

    assert "~   %b  exp(2)  <- %a" in found
    assert "~       args[1]: 1 -> 2" in found


def test_added_and_removed_nodes_are_marked():
    longer = BEFORE.replace("return %b", "%c = torch.sin(%b)\nreturn %c")

    assert "+ %c  sin  <- %b" in lines(BEFORE, longer)
    assert "- %c  sin  <- %b" in lines(longer, BEFORE)


def test_a_closed_box_is_one_line_with_its_content():
    picture = picture_of(document(BEFORE), None, title="")

    assert [*outline_lines(picture, ())] == ["  %x  x  # 2", "  ... m (2 nodes)", "  %output  output  <- %b"]


def test_of_a_changed_node_only_the_facts_that_differ_are_told():
    found = lines(
        BEFORE, BEFORE.replace("%b = torch.exp(%a, 1)", "%c = torch.exp(%a)").replace("return %b", "return %c")
    )

    assert [line for line in found if line.startswith("~")] == ["~   %c  exp  <- %a", "~       args[1]: 1 -> nothing"]


def test_a_text_of_more_than_60_characters_is_cut_in_the_middle():
    def told(length: int) -> str:
        text = f'"{"a" * (length - 2)}"'
        (line,) = [each for each in lines(BEFORE, BEFORE.replace("%a, 1", f"%a, {text}")) if "args[1]" in each]
        return line.removeprefix("~       args[1]: 1 -> ")

    assert told(60) == f'"{"a" * 58}"'
    assert len(told(61)) <= 60
