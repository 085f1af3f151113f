"""`constants=`: floats that differ by rounding, compared with goldens however these were written."""

from __future__ import annotations

import math

import pytest

NEXT = repr(math.nextafter(0.125, 1))

MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(3, eps={eps})
        self.small = torch.tensor([1.0, {small}])
        self.large = torch.linspace(0.5, 1, 100) * {large}

    def forward(self, x):
        y = torch.nn.functional.leaky_relu(self.norm(x) * {scale}, negative_slope={scale})
        return y + self.small, y + self.large
"""
AS_WRITTEN = {"eps": "0.125", "small": "0.5", "large": "1.0", "scale": "0.125"}
TEST = """
from model import Net


def test_net(fx_golden):
    assert Net() == fx_golden{call}
"""
NUDGED = [
    {"scale": NEXT},
    {"eps": NEXT},
    {"small": "0.50000006"},
    {"large": "1.0000001"},
]


@pytest.fixture
def written(project):
    """Write a golden of the model, and give what changes the model and the call in the test."""
    golden = project.path / "golden/test_net/test_net.yaml"

    def change(call="", **numbers):
        project.pytester.makepyfile(model=MODEL.format(**{**AS_WRITTEN, **numbers}))
        project.test(TEST.format(call=call))

    def write(call=""):
        change(call)
        project.update()
        return golden

    project.write_golden, project.change = write, change
    return project


@pytest.mark.sampled(every=4, start=2)
@pytest.mark.parametrize("numbers", NUDGED, ids=lambda numbers: next(iter(numbers)))
def test_rounding_fails_at_exact_with_the_cure_and_passes_at_close(written, numbers):
    golden = written.write_golden()
    before = golden.read_bytes()
    written.change(**numbers)

    failed, passed = written.run(), written.run("--fx-constants=close", "--fx-update-golden")

    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(['*constants="close" accepts that*'])
    passed.assert_outcomes(passed=1)
    assert golden.read_bytes() == before


@pytest.mark.parametrize("place", ["argument", "marker", "ini"])
def test_close_can_be_asked_for_wherever_settings_are(written, place):
    written.write_golden()
    written.change('(constants="close")' if place == "argument" else "", scale=NEXT)
    if place == "marker":
        written.test(
            "import pytest\n" + TEST.format(call="").replace("def ", '@pytest.mark.fx(constants="close")\ndef ')
        )
    if place == "ini":
        written.pytester.makeini("[pytest]\npythonpath = .\nfx_constants = close\n")

    written.run().assert_outcomes(passed=1)


def test_what_is_no_rounding_fails_at_close_too(written):
    written.write_golden()
    written.change('(constants="close")', scale="0.1251")

    result = written.run()

    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*accepts that*")


def test_a_golden_written_at_close_is_compared_at_close_and_refused_at_exact_in_words(written):
    written.write_golden('(constants="close")')
    written.change('(constants="close")', small="0.50000006", large="1.0000001")
    passed = written.run()
    written.change()
    failed = written.run()

    passed.assert_outcomes(passed=1)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(['*the same as far as both hold them: one was written at constants="close"*'])


def test_the_distance_of_a_constant_is_told_in_ulps(written):
    written.write_golden()
    written.change(small="0.50000006")

    written.run().stdout.fnmatch_lines(
        ['*small: values at most 1 ulp apart, in 1 of 2 values; constants="close" accepts that*']
    )
