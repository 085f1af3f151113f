from __future__ import annotations

from fixtures.documents import document
from pytest_fxgraph.compare.effects import accesses, effects_of


def test_chains_bind_inputs_outputs_and_effects_of_one_kind():
    nodes = document(
        "%x = input x\n%a = f(%x) ! random\n%b = g(%x) ! io; random\n%c = self.bn(%x) ! state\nreturn %c"
    ).nodes

    effects = effects_of(nodes, {})

    assert effects.chains == {"placeholder": (0,), "random": (1, 2), "io": (2,), "state bn": (3,), "output": (4,)}


def test_modules_that_are_one_object_share_a_chain():
    nodes = document("%x = input x\n%a = self.p(%x) ! state\n%b = self.q(%x) ! state\nreturn %b").nodes

    assert effects_of(nodes, {"p": "p", "q": "p"}).chains["state p"] == (1, 2)


def test_an_access_knows_the_writes_before_it():
    nodes = document(
        "%x = input x\n%a = f(%x) ! read %x\n%b = g(%x) ! write %x\n%c = h(%x) ! read %x; write %y\nreturn %c"
    ).nodes

    found = accesses(effects_of(nodes, {}), lambda _: True)

    assert found == {1: (("read", "%x", 0),), 2: (("write", "%x", 0),), 3: (("read", "%x", 1), ("write", "%y", 0))}
