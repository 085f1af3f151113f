"""A test that was renamed takes its golden along; nothing is taken from a golden whose state is unknown."""

from __future__ import annotations

import pytest

TWO = """
import torch


def test_{name}(fx_golden):
    assert (lambda x: torch.neg(x)) == fx_golden


def test_other(fx_golden):
    assert (lambda x: torch.abs(x)) == fx_golden
"""
OLD, NEW = "test_net/test_old.yaml", "test_net/test_new.yaml"
TOLD = f"fx: golden/{NEW} is missing, and golden/{OLD}, for which no test asks, holds this very graph: *"


@pytest.fixture
def renamed(project):
    """A project in which one of two tests has got another name, and whose old golden has Windows' line ends."""
    project.test(TWO.format(name="old"))
    project.update().assert_outcomes(passed=2)
    golden = project.path / "golden" / OLD
    golden.write_bytes(golden.read_bytes().replace(b"\n", b"\r\n"))
    project.test(TWO.format(name="new"))
    return project


@pytest.mark.parametrize(
    "workers", ["-n0", pytest.param("-n1", marks=pytest.mark.slow)]
)  # what is known of tests that failed comes from the workers
def test_it_is_told_which_unused_golden_is_identical(renamed, workers):
    before = renamed.goldens()

    result = renamed.run(workers)

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([TOLD])
    assert renamed.goldens() == before


def test_an_update_copies_the_golden_with_its_variants_and_leaves_the_old_one_to_prune(renamed):
    variant = renamed.path / "golden/test_net/test_old@torch-1.1.yaml"
    variant.write_bytes((renamed.path / "golden" / OLD).read_bytes().replace(b"neg", b"exp"))
    before = renamed.goldens()

    result = renamed.update()

    result.assert_outcomes(passed=2)
    after = renamed.goldens()
    assert after == {
        **before,
        NEW: before[OLD],
        NEW.replace(".yaml", "@torch-1.1.yaml"): before[OLD.replace(".yaml", "@torch-1.1.yaml")],
    }
    result.stdout.fnmatch_lines([f"fx: unused golden/{OLD}", f"fx: golden/{NEW} is a copy of golden/{OLD}"])
    pruned = renamed.run("--fx-prune-golden")
    pruned.stdout.fnmatch_lines([f"fx: removed golden/{OLD}"])
    assert renamed.goldens() == {name: text for name, text in after.items() if "test_old" not in name}


def test_a_file_that_was_renamed_takes_its_goldens_along(renamed):
    renamed.update()
    before = renamed.goldens()
    (renamed.path / "test_net.py").rename(renamed.path / "test_nets.py")

    renamed.run().stdout.fnmatch_lines(
        ["fx: golden/test_nets/test_new.yaml is missing, and golden/test_net/test_new.*"]
    )
    renamed.update().assert_outcomes(passed=2)

    assert renamed.goldens()["test_nets/test_new.yaml"] == before[NEW]
    assert b"\r\n" in before[NEW]


def test_the_variant_that_serves_this_torch_is_the_one_compared(renamed):
    import torch

    from pytest_fxgraph.goldens.files import variant_path

    base = renamed.path / "golden" / OLD
    variant = variant_path(base, torch.__version__)
    variant.write_bytes(base.read_bytes())
    base.write_bytes(base.read_bytes().replace(b"torch.neg", b"torch.exp"))
    before = renamed.goldens()

    renamed.update().assert_outcomes(passed=2)

    after = renamed.goldens()
    assert after[NEW] == before[OLD]
    assert after[variant.name.replace("old", "new").join(["test_net/", ""])] == variant.read_bytes()
    renamed.run().assert_outcomes(passed=2)


UNKNOWN = {
    "a test is left out": (TWO.format(name="new"), ["-k", "new"]),
    "the test alone is run": (TWO.format(name="new"), ["test_net.py::test_new"]),
    "a test fails": (TWO.format(name="new") + "\n\ndef test_bad():\n    assert False\n", []),
    "a test is skipped": (TWO.format(name="new") + "\n\ndef test_bad():\n    import pytest\n    pytest.skip()\n", []),
    "a test failed after a golden was missing": (
        TWO.format(name="new") + "\n\ndef test_bad(fx_golden):\n    fx_golden.check(lambda x: x)\n    assert False\n",
        [],
    ),
    "the old test is there": (TWO.format(name="new") + TWO.format(name="old").partition("def test_other")[0], []),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("case", UNKNOWN)
def test_nothing_is_taken_from_a_golden_of_which_it_is_not_certain_that_it_is_unused_as(renamed, case):
    text, options = UNKNOWN[case]
    renamed.test(text)
    before = renamed.goldens()

    told, result = renamed.run(*options), renamed.update(*options)

    told.stdout.no_fnmatch_line("*holds this very graph*")
    result.stdout.no_fnmatch_line("*is a copy of*")
    after = renamed.goldens()
    assert after.keys() - before.keys() <= {NEW, "test_net/test_bad.yaml"}
    assert b"\r\n" not in after[NEW]


def test_another_graph_is_not_taken_for_a_rename(renamed):
    renamed.test(TWO.format(name="new").replace("torch.neg", "torch.exp"))

    renamed.run().stdout.no_fnmatch_line("*holds this very graph*")
    renamed.update().stdout.no_fnmatch_line("*is a copy of*")


NAMED = "import torch\n\n\ndef test_net(fx_golden):\n    assert (lambda x: torch.neg(x)) == fx_golden(name={!r})\n"


def test_what_the_failed_test_itself_may_ask_for_is_no_source(project):
    project.test(
        "import torch\n\n\ndef test_net(fx_golden):\n    assert (lambda x: torch.neg(x)) == fx_golden(name='a')\n"
    )
    project.update().assert_outcomes(passed=1)
    project.test(
        "import torch\n\n\ndef test_net(fx_golden):\n    assert (lambda x: torch.neg(x)) == fx_golden(name='b')\n"
    )

    project.run().stdout.no_fnmatch_line("*holds this very graph*")

    # The test that passed, as its golden was written, has asked for all that it asks for.
    project.update().stdout.fnmatch_lines(["fx: golden/test_net/test_net.b.yaml is a copy of *test_net.a.yaml"])
