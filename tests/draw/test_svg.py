from __future__ import annotations

from xml.etree import ElementTree

from fixtures.documents import document
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.svg import number_text, path_text, svg_text

SPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert("1")</script>&\x1b[0m\u202e'


def drawn(text: str, title: str = "net.yaml") -> str:
    picture = picture_of(document(text), title=title)
    return svg_text(picture, picture.opened(150))


def test_a_picture_is_xml_with_every_label_and_shape():
    root = ElementTree.fromstring(drawn("%x = input x : float32[2, 3]\n%a = torch.relu(%x) : float32[2, 3]\nreturn %a"))

    texts = [element.text for element in root.iter(f"{SPACE}text")]
    assert [text for text in texts if text in ("x", "relu", "output")] == ["x", "relu", "output"]
    assert texts.count("2\N{MULTIPLICATION SIGN}3") == 2
    assert next(root.iter(f"{SPACE}title")).text == "net.yaml"


def test_nothing_in_a_name_is_markup():
    text = drawn(f'%x = input x\n%a = torch.foo(%x, "{HOSTILE[:21]}")\nreturn %a', title=HOSTILE)

    root = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(SPACE) for element in root.iter()} == {
        *("svg", "title", "style", "rect", "path", "text", "g"),
    }
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_name_of_an_open_module_stands_above_the_lines_that_cross_it():
    root = ElementTree.fromstring(drawn("%x = input x\n%a = torch.neg(%x) @ m\n%b = torch.exp(%a) @ m\nreturn %b"))

    kinds = [element.get("class") for element in root]
    assert kinds.index("opened") > max(number for number, kind in enumerate(kinds) if (kind or "").startswith("edge"))
    assert root[kinds.index("opened")].text == "m"


def test_the_same_graph_gives_the_same_file():
    text = "%x = input x\n%a = torch.neg(%x) @ m\n%b = torch.exp(%a) @ m\nreturn (%a, %b)"

    assert drawn(text) == drawn(text)


def test_no_file_or_address_is_referred_to():
    text = drawn("%x = input x\nreturn %x")

    assert "href" not in text
    assert "url(" not in text
    assert text.count("http") == 1  # the name of the language


def test_a_line_is_straight_where_nothing_moves_it_aside():
    assert path_text([(1.0, 2.0), (1.0, 5.04), (3.25, 9.0)]) == "M1 2L1 5C1 7 3.2 7 3.2 9"


def test_changes_are_told_by_signs_too():
    before = document("%x = input x\n%a = torch.neg(%x)\nreturn %a")
    after = document("%x = input x\n%a = torch.neg(%x)\n%b = torch.exp(%a)\nreturn %b")
    signs = []
    for pair in ((before, after), (after, before)):
        picture = picture_of(*pair, title="")
        root = ElementTree.fromstring(svg_text(picture, picture.all_opened()))
        signs.append({element.text for element in root.iter(f"{SPACE}text") if element.get("class") == "sign"})

    assert signs == [{"+", "~"}, {"\N{MINUS SIGN}", "~"}]


def chain(scopes) -> str:
    lines, last = ["%x = input x"], "x"
    for number, scope in enumerate(scopes):
        lines.append(f"%a{number} = torch.neg(%{last}) @ {scope}")
        last = f"a{number}"
    return "\n".join([*lines, f"return %{last}"])


def test_a_closed_box_says_its_contents_and_a_repetition_has_a_second_sheet():
    picture = picture_of(document(chain(f"layers.{number}.part" for number in range(60))), title="")

    found = {}
    for opened in ({picture.root.number}, picture.opened(40)):
        for box in ElementTree.fromstring(svg_text(picture, opened)).iter(f"{SPACE}g"):
            if "folded" in box.get("class", ""):
                texts = [each.text for each in box.iter(f"{SPACE}text")]
                found[box.get("class").split()[1]] = len([*box.iter(f"{SPACE}rect")]), texts

    assert found["module"][0] == 1
    assert found["repeated"][0] == 2
    assert found["module"][1][0] == "layers"
    assert found["repeated"][1] == ["59 more: layers.1 .. layers.59", "59 nodes"]


def test_the_changed_field_and_one_shape_stand_at_a_node():
    before = document("%x = input x : float32[2]\n%a = torch.sum(%x, dim=0) : float32[]\nreturn %a")
    after = document("%x = input x : float32[2]\n%a = torch.sum(%x, dim=-1) : float32[]\nreturn %a")

    text = svg_text(picture := picture_of(before, after, title=""), picture.all_opened())

    assert ">dim 0 → -1</text>" in text
    assert text.count('class="value"') == 2


def test_a_box_that_values_of_several_shapes_leave_has_no_shape():
    text = "%x = input x : float32[2]\n%a = torch.neg(%x) : float32[2] @ m\n%b = torch.sum(%a) : float32[] @ m\n"
    picture = picture_of(document(f"{text}return (%a, %b)"), title="")

    assert svg_text(picture, picture.all_opened()).count('class="value"') == 3
    assert svg_text(picture, {picture.root.number}).count('class="value"') == 1


def test_each_shape_is_drawn_to_the_letter():
    before = (
        "%x = input x : float32[2]\n%a = torch.sum(%x, dim=0) : float32[] @ enc\n%b = torch.neg(%a) @ enc\nreturn %b"
    )
    picture = picture_of(document(before), document(before.replace("dim=0", "dim=-1")), title="net")

    closed = svg_text(picture, {picture.root.number}).split("\n")
    opened = svg_text(picture, picture.all_opened()).split("\n")

    assert closed[0].endswith('class="fx" width="126" height="181" viewBox="0 0 126 181" role="img">')
    for line in (
        '<text class="value" x="63" y="47">2</text>',
        '<g class="folded module changed"><rect x="12" y="70" width="102" height="41" rx="6"/>'
        '<text class="label" x="63" y="86">enc</text><text class="place" x="63" y="101">2 nodes ~1</text>'
        "<title>enc</title></g>",
    ):
        assert line in closed
    for line in (
        '<g class="cluster module"><rect x="12" y="70" width="122" height="192" rx="8"/><title>enc</title></g>',
        '<text class="opened" x="21" y="85">enc</text>',
        '<g class="node input "><rect x="60.5" y="12" width="25" height="24" rx="14"/>'
        '<text class="label" x="73" y="28">x</text>'
        r"<title>x\nname: x\noperation: placeholder\ntarget: x\nvalue: float32[2]</title></g>",
        '<g class="node call changed"><rect x="24" y="119" width="98" height="39" rx="5"/>'
        '<text class="label" x="73" y="135">sum(dim=-1)</text><text class="place" x="73" y="150">dim 0 → -1</text>'
        '<circle class="sign" cx="24" cy="120" r="7"/><text class="sign" x="24" y="124">~</text>'
        r"<title>a\nname: a\noperation: call_function\ntarget: torch.sum\nargs[0]: %x\ndim: -1\nvalue: float32[]\n"
        "in module: enc</title></g>",
    ):
        assert line in opened


def test_the_second_sheet_of_a_repetition_lies_5_pixels_aside_and_pushes_its_shape_down():
    lines, before = ["%x = input x : float32[2]"], "x"
    for number in range(60):
        lines.append(f"%a{number} = torch.neg(%{before}) : float32[2] @ layers.{number}.part")
        lines.append(f"%b{number} = torch.neg(%a{number}) : float32[2] @ layers.{number}.part")
        before = f"b{number}"
    picture = picture_of(document("\n".join([*lines, "%y = torch.exp(%b59)", "return %y"])), title="")

    text = svg_text(picture, picture.opened(40))

    assert '<rect x="29" y="335" width="248" height="41" rx="6"/><rect x="24" y="330" width="248" height="41"' in text
    assert '<text class="value" x="148" y="388">2</text>' in text


def test_a_coordinate_has_one_digit_after_the_point_and_no_exponent():
    assert [number_text(number) for number in (99_999.94, 100_000, -100_000.4, 0.05, 7)] == [
        *("99999.9", "100000", "-100000", "0.1", "7"),
    ]


def test_only_an_open_module_has_a_frame():
    text = chain(f"layers.{number}.part" for number in range(3))
    picture = picture_of(document(text), title="")

    def kinds(opened):
        root = ElementTree.fromstring(svg_text(picture, opened))
        return [
            kind.split()[0] for element in root if (kind := element.get("class", "")).startswith(("cluster", "fold"))
        ]

    assert kinds({picture.root.number}) == ["folded"]
    assert set(kinds(picture.all_opened())) == {"cluster"}


def test_a_frame_names_the_path_of_its_module():
    scopes = ["enc.one", "enc.one", "enc.two", "enc.two"]
    picture = picture_of(document(chain(scopes)), title="")
    root = ElementTree.fromstring(svg_text(picture, picture.all_opened()))

    groups = [group for group in root if group.get("class", "").startswith("cluster")]
    assert [group.find(f"{SPACE}title").text for group in groups] == ["enc", "enc.one", "enc.two"]


def test_the_corners_of_inputs_outputs_and_state_are_rounded_differently():
    text = "%x = input x\n%w = get w\n%v = get v\n%a = torch.add(%x, %w, %v)\n%b = torch.mul(%a, %w, %v)\nreturn %b"
    root = ElementTree.fromstring(drawn(text))

    radii = {group.get("class"): group[0].get("rx") for group in root.iter(f"{SPACE}g")}
    assert radii == {"node input ": "14", "node output ": "14", "node state ": "2", "node call ": "5"}


def test_coordinates_have_one_digit_after_the_point_below_100000():
    assert [number_text(number) for number in (3.25, 99_999.94, 100_000.0, 123_456.5)] == [
        *("3.2", "99999.9", "100000", "123456"),
    ]
