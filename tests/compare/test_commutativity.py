from __future__ import annotations

import pytest

from fixtures.documents import document
from pytest_fxgraph.compare.levels import compare_documents

EITHER_WAY = {
    "function": "{0}torch.add(%x, %y)|{0}torch.add(%y, %x)",
    "python operator": "{0}operator.mul(%x, 2)|{0}operator.mul(2, %x)",
    "method": "{0}.maximum(%x, %y)|{0}.maximum(%y, %x)",
}
ONE_WAY = {
    "subtraction": "{0}operator.sub(%x, %y)|{0}operator.sub(%y, %x)",
    "scaled addition": "{0}torch.add(%x, %y, alpha=2)|{0}torch.add(%y, %x, alpha=2)",
    "joined tuples": "{0}operator.add(%x, (1,))|{0}operator.add((1,), %x)",
    "joined texts": '{0}operator.add(%x, "a")|{0}operator.add("a", %x)',
    "written in place": "{0}.add_(%x, %y)|{0}.add_(%y, %x)",
}


def both(lines: str):
    return [document(f"%x = input x\n%y = input y\n{line.format('%a = ')}\nreturn %a") for line in lines.split("|")]


@pytest.mark.parametrize("name", EITHER_WAY)
def test_operands_may_change_places_only_where_that_was_asked_for(name):
    expected, obtained = both(EITHER_WAY[name])

    assert compare_documents(expected, obtained, commutative=True).is_empty
    assert not compare_documents(expected, obtained).is_empty


@pytest.mark.parametrize("name", ONE_WAY)
def test_operands_of_other_operators_keep_their_places(name):
    expected, obtained = both(ONE_WAY[name])

    assert not compare_documents(expected, obtained, commutative=True).is_empty


def test_sizes_are_joined_not_added():
    lines = "%x = input x\n%s = .size(%x)\n%t = .size(%x)\n%u = f(%t)\n"
    expected = document(lines + "%a = operator.add(%s, %u)\nreturn %a")
    obtained = document(lines + "%a = operator.add(%u, %s)\nreturn %a")

    assert not compare_documents(expected, obtained, commutative=True).is_empty


def test_free_operands_are_free_all_the_way_down():
    expected = document(
        "%x = input x\n%y = input y\n%a = torch.add(%x, %y)\n%b = f(%a)\n%c = torch.mul(%b, %a)\nreturn %c"
    )
    obtained = document(
        "%x = input x\n%y = input y\n%a = torch.add(%y, %x)\n%b = f(%a)\n%c = torch.mul(%a, %b)\nreturn %c"
    )

    assert compare_documents(expected, obtained, commutative=True).is_empty


def test_equal_operands_with_different_readers_are_told_apart():
    expected = document("%x = input x\n%p = f(%x)\n%q = f(%x)\n%a = torch.add(%p, %q)\n%b = g(%p, %a)\nreturn %b")
    obtained = document("%x = input x\n%p = f(%x)\n%q = f(%x)\n%a = torch.add(%q, %p)\n%b = g(%p, %a)\nreturn %b")

    assert compare_documents(expected, obtained, commutative=True).is_empty


def test_operands_read_before_and_after_a_write_are_told_apart():
    lines = "%x = input x\n%p = f(%x) ! read %x\n%w = g(%x) ! write %x\n%q = f(%x) ! read %x\n"
    expected, obtained = (document(f"{lines}%a = torch.add({two})\nreturn %a") for two in ("%p, %q", "%q, %p"))

    assert compare_documents(expected, obtained, commutative=True).is_empty
    assert not compare_documents(expected, obtained).is_empty


def test_another_operand_is_one_difference_in_its_place():
    expected, obtained = both("{0}torch.add(%x, 1)|{0}torch.add(%x, 2)")

    (change,) = compare_documents(expected, obtained, commutative=True).changes

    assert (change.field, change.expected, change.obtained) == ("args[1]", "1", "2")


def test_other_operators_are_still_differences():
    expected, obtained = both("{0}torch.add(%x, %y)|{0}torch.mul(%y, %x)")

    assert not compare_documents(expected, obtained, commutative=True).is_empty


@pytest.mark.parametrize("call", ["f(%a, %x)", "torch.add(%a, %x)", "torch.add(%b, %x)", "f(%b, %x)"])
def test_a_broken_graph_that_reads_what_is_not_made_yet_is_compared(call):
    expected, obtained = (document(f"%x = input x\n%a = {call}\n%b = {last}(%a)\nreturn %b") for last in "gh")

    assert compare_documents(expected, expected, commutative=True).is_empty
    (change,) = compare_documents(expected, obtained, commutative=True).changes
    assert (change.where, change.field, change.expected, change.obtained) == ("b", "target", "g", "h")


@pytest.mark.parametrize("function", ["exp", "neg"])
def test_operands_change_places_at_every_depth_at_once(function):
    inputs = f"%x = input x\n%y = input y\n%z = torch.{function}(%y)\n"
    expected = "%a = torch.mul(%x, %y)\n%b = torch.mul(%y, %z)\n%c = torch.add(%a, %b)\nreturn %c"
    obtained = "%a = torch.mul(%y, %x)\n%b = torch.mul(%z, %y)\n%c = torch.add(%b, %a)\nreturn %c"
    another = obtained.replace("(%z, %y)", "(%z, %x)")

    assert compare_documents(document(inputs + expected), document(inputs + obtained), commutative=True).is_empty
    assert not compare_documents(document(inputs + expected), document(inputs + another), commutative=True).is_empty


@pytest.mark.parametrize(
    ("value", "is_size"),
    [
        (".size(%x)", True),
        ('builtins.getattr(%x, "shape")', True),
        ('getattr(%x, "shape")', True),
        (".size(%x, 0)", False),
        (".size(%x, dim=0)", False),
        ('builtins.getattr(%x, "ndim")', False),
        ('f(%x, "shape")', False),
        ('getattr("shape", %x)', False),
        (".shape(%x)", False),
    ],
)
def test_two_sizes_are_joined_and_other_values_are_added(value, is_size):
    lines = f"%x = input x\n%s = {value}\n%t = f(%x)\n"
    expected, obtained = (document(f"{lines}%a = operator.add({each})\nreturn %a") for each in ("%s, %t", "%t, %s"))

    assert compare_documents(expected, obtained, commutative=True).is_empty is not is_size


def test_operands_that_are_commutative_calls_themselves_are_put_in_one_order():
    graphs = [
        document(f"%x = input x\n%m = torch.mul({first})\n%s = torch.sin(%x)\n%a = torch.add({second})\nreturn %a")
        for first in ("%x, 2", "2, %x")
        for second in ("%m, %s", "%s, %m")
    ]

    for expected in graphs:
        assert all(compare_documents(expected, obtained, commutative=True).is_empty for obtained in graphs)


@pytest.mark.parametrize(
    "calls", [("torch.add(%x, %y)", "torch.mul(%x, %y)"), ("f(%x, %y)", "f(%y, %x)"), ("f(%x)", "g(%x)")]
)
def test_operands_that_are_calls_on_the_same_values_are_put_in_one_order(calls):
    graphs = [
        document("%x = input x\n%y = input y\n%p = {}\n%q = {}\n%a = torch.add({})\nreturn %a".format(*order, operands))
        for order in (calls, calls[::-1])
        for operands in ("%p, %q", "%q, %p")
    ]

    assert all(compare_documents(graphs[0], obtained, commutative=True).is_empty for obtained in graphs)


@pytest.mark.parametrize("operands", ["%p, %q", "%q, %p"])
@pytest.mark.parametrize("results", ["%p, %q", "%q, %p"])
def test_equal_operands_that_are_also_results_are_told_apart(operands, results):
    text = "%x = input x\n%p = g(%x)\n%q = g(%x)\n%a = torch.add({})\nreturn ({})"

    expected, obtained = (document(text.format(each, results)) for each in ("%q, %p", operands))

    assert compare_documents(expected, obtained, commutative=True).is_empty
