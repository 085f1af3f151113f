from __future__ import annotations

from fxcore.operators import table
from pytest_fxgraph.document.operator_table import facts_of_call, operator_table


def test_the_plugin_reads_the_table_of_fxcore():
    assert operator_table() == table.operator_table()
    assert operator_table() is operator_table()


def test_a_call_has_the_facts_of_its_function_or_method():
    assert facts_of_call("call_method", "add")["operator"] == "add"
    assert facts_of_call("call_function", "torch.add") == facts_of_call("call_method", "add")
    assert facts_of_call("call_function", "operator.truediv")["operator"] == "div"
    assert "inplace" in facts_of_call("call_function", "torch.nn.functional.relu")["parameters"]


def test_another_name_of_an_operator_has_facts_of_its_own_beside_those_of_torch():
    assert facts_of_call("call_function", "torch.multiply")["operator"] == "mul"
    assert "commutative" in facts_of_call("call_function", "torch.multiply")
    assert "operator" not in facts_of_call("call_method", "multiply")


def test_nothing_is_known_of_functions_of_the_user_and_of_other_kinds_of_nodes():
    assert facts_of_call("call_function", "add") == {}
    assert facts_of_call("call_function", "mine.add") == {}
    assert facts_of_call("call_function", "torch.mine.add") == {}
    assert facts_of_call("placeholder", "add") == {}
    assert facts_of_call("call_module", "add") == {}
