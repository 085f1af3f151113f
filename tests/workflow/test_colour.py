"""Report sections are coloured where pytest uses colour, and plain everywhere else."""

from __future__ import annotations

import json
import re

import pytest

ESCAPE = "\x1b["


@pytest.fixture
def differing(project, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    project.update()
    project.model("torch.sigmoid(y)")
    return project


def section_of(result) -> str:
    text = result.stdout.str()
    return text[text.index("fx golden golden/test_net/test_net.yaml") :]


@pytest.mark.sampled(every=3, start=1)
@pytest.mark.parametrize(
    ("options", "environment", "is_coloured"),
    [
        (["--color=yes"], {}, True),
        (["--color=no"], {}, False),
        ([], {}, False),  # nobody looks at a pipe
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color=yes"], {"NO_COLOR": "1"}, True),
        pytest.param(["--color=yes", "-n1"], {}, True, marks=pytest.mark.slow),
        pytest.param(["-n1"], {}, False, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_sections_follow_pytests_own_colour(differing, monkeypatch, options, environment, is_coloured):
    if "-n1" in options:
        pytest.importorskip("xdist")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    section = section_of(differing.run(*options))

    assert ("\x1b[31mtorch.relu\x1b[0m -> \x1b[32mtorch.sigmoid\x1b[0m" in section) is is_coloured
    assert (ESCAPE in section) is is_coloured


def test_colour_stays_out_of_goldens_received_files_and_reports(differing):
    differing.run("--color=yes", "--fx-received", "--fx-report=fx.json", "--junit-xml=junit.xml")

    assert ESCAPE not in (differing.path / "fx.json").read_text()
    assert "\\u001b" not in (differing.path / "fx.json").read_text()
    assert not any(b"\x1b" in text for text in differing.goldens().values())
    (outcome,) = json.loads((differing.path / "fx.json").read_text())["outcomes"]
    assert "torch.relu -> torch.sigmoid" in outcome["section"]
    # pytest itself writes what it shows there; nothing of ours in it is coloured.
    assert not re.search(r"#x1B\[3[12]mtorch", (differing.path / "junit.xml").read_text())


@pytest.mark.parametrize("shown", ["no", "stdout", "all"])
def test_the_section_is_there_whatever_captured_output_is_shown(differing, shown):
    result = differing.run(f"--show-capture={shown}")

    assert result.stdout.str().count("fx golden golden/test_net/test_net.yaml -") == 1


def test_what_is_dressed_up_for_the_terminal_is_put_back(differing):
    differing.write(
        "conftest.py",
        """
def pytest_unconfigure(config):
    (report,) = config.pluginmanager.get_plugin("terminalreporter").stats["failed"]
    assert not any("\\x1b" in content for _, content in report.sections), "coloured for good"
    assert not any(name.startswith("fx ") for name, *_ in report.longrepr.sections), "shown for good"
    print("put back")
""",
    )

    result = differing.run("--color=yes", "--show-capture=no", "-s")

    assert "put back" in result.stdout.str()
