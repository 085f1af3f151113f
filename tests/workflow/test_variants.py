"""`<stem>@torch-X.Y.yaml` serves one minor version of torch, beside the base file."""

from __future__ import annotations

import re

import pytest
import torch

MINOR = re.match(r"\d+\.\d+", torch.__version__)[0]
BASE = "test_net/test_net.yaml"
VARIANT = f"test_net/test_net@torch-{MINOR}.yaml"
OTHER = "test_net/test_net@torch-1.9.yaml"


def test_a_variant_is_written_beside_the_base_and_goes_before_it(project):
    project.update()
    base = project.goldens()[BASE]
    project.model("torch.sigmoid(y)")

    result = project.update("--fx-update-variant")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"fx: wrote golden/{VARIANT}"])
    assert project.goldens().keys() == {BASE, VARIANT}
    assert project.goldens()[BASE] == base
    project.run().assert_outcomes(passed=1)
    project.model()
    project.run().stdout.fnmatch_lines([f"E*golden/{VARIANT} does not match*"])


def test_a_base_that_matches_needs_no_variant(project):
    project.update()

    project.update("--fx-update-variant").assert_outcomes(passed=1)

    assert list(project.goldens()) == [BASE]


def test_an_update_rewrites_the_file_that_was_compared(project):
    project.update()
    project.model("torch.sigmoid(y)")
    project.update("--fx-update-variant")
    before = project.goldens()
    project.model("torch.tanh(y)")

    project.update().assert_outcomes(passed=1)

    after = project.goldens()
    assert after[BASE] == before[BASE]
    assert b"tanh" in after[VARIANT]


def test_the_variant_of_another_torch_is_not_looked_at(project):
    project.update()
    project.write(f"golden/{OTHER}", "nonsense")

    project.run().assert_outcomes(passed=1)


def test_a_variant_is_never_unused_while_its_base_is_used(project):
    project.update()
    text = project.goldens()[BASE].decode()
    project.write(f"golden/{OTHER}", text)
    project.write("golden/test_net/test_old@torch-1.9.yaml", text)

    project.run("--fx-prune-golden")

    assert project.goldens().keys() == {BASE, OTHER}


def test_what_was_received_goes_beside_the_variant(project):
    project.update()
    project.model("torch.sigmoid(y)")
    project.update("--fx-update-variant")
    project.model("torch.tanh(y)")

    project.run("--fx-received").assert_outcomes(failed=1)

    assert f"test_net/test_net@torch-{MINOR}.received.yaml" in project.goldens()


def test_only_new_and_only_changed_count_what_serves_this_torch(project):
    project.update()
    project.model("torch.sigmoid(y)")

    project.update("--fx-update-variant", "--fx-update-only=new").assert_outcomes(failed=1)
    project.update("--fx-update-variant", "--fx-update-only=changed").assert_outcomes(passed=1)

    assert project.goldens().keys() == {BASE, VARIANT}


def test_one_golden_compared_twice_is_written_once(project):
    project.update()
    project.model("torch.sigmoid(y)")
    project.test(
        "from model import Net\n\ndef test_net(fx_golden):\n"
        "    assert Net() == fx_golden\n    assert Net() == fx_golden(name='again')\n"
        "    assert Net() == fx_golden(name='again')\n"
    )

    project.update("--fx-update-variant").assert_outcomes(passed=1)

    assert project.goldens().keys() == {BASE, VARIANT, f"test_net/test_net.again@torch-{MINOR}.yaml"}
    project.run().assert_outcomes(passed=1)


def test_the_flag_alone_is_refused(project):
    result = project.run("--fx-update-variant")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--fx-update-variant: expected together with --fx-update-golden*"])
