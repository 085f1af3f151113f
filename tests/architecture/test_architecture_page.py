"""The page of the architecture names every package: once in a table, and in the picture."""

from __future__ import annotations

import re

import pytest

from tests.architecture.test_import_direction import MODULES, ORDER, ROOT

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PACKAGES = sorted(name for name, file in MODULES.items() if name.count(".") == 1 and file.name == "__init__.py")


def places_in_tables(package: str) -> list[str]:
    """Return the places in the first column of a package's table."""
    section = re.search(rf"(?ms)^## {package}\b.*?^$\n(\|.*?)\n\n", PAGE)
    assert section is not None
    return [place for row in section[1].splitlines()[2:] for place in re.findall(r"`([\w/]+)`", row.split("|")[1])]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_one_row_and_a_box_in_the_picture(package):
    picture = re.search(r"(?ms)^```mermaid\n(.*?)^```$", PAGE)
    assert picture is not None

    root, name = package.split(".")

    assert places_in_tables(root).count(f"{name}/") == 1
    assert re.search(rf'[" ]{name}/', picture[1])


@pytest.mark.parametrize("root", ["fxcore", "pytest_fxgraph"])
def test_the_table_has_each_place_of_the_order_once(root):
    expected = [place.partition(".")[2] for place in ORDER if place.startswith(f"{root}.")]

    assert sorted(place.rstrip("/") for place in places_in_tables(root)) == sorted(expected)
