"""Each failure of other systems that ours must not have has a test. `pytest --scenarios` lists them."""

import ast
import sys

import pytest

from scenarios import FORM, marked, scenarios, table
from sources import names_of_tests
from tree import run

REQUIRED = {
    *("A1", "A2", "A3", "A4", "A5", "A6", "A7", "A9", "A10", "A12", "A13", "A14", "A15", "A17", "A19"),
    *("A20", "A21", "A22", "A23"),
    *("B1", "B4", "B5", "B6", "B9"),
    *("C1", "C2", "C3", "C4", "C5", "C7", "C9", "C10", "C12", "C13", "C14", "C16", "C17", "C18", "C19"),
    *("C20", "C21", "C23", "C25", "C26"),
    *("D1", "D2", "D3", "D5", "D6", "D8", "D10", "D11", "D12"),
    *("E1", "E2", "E4", "E5", "E7", "E8", "E9", "E10", "E11", "E12", "E14"),
    *("F1", "F3", "F5", "F6"),
    *("G1", "G3", "G4"),
    *("H1", "H3", "H4"),
    *("J1", "J2", "J4", "J6"),
}

PLANTED = """
pytestmark = [pytest.mark.slow, pytest.mark.scenario("A1")]

def test_a(): ...

@pytest.mark.scenario("A2", "A1")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.scenario("A3"))])
async def test_b(x): ...

@pytest.mark.scenario("B1")
class TestC:
    def test_d(self): ...
    def helper(self): ...

@pytest.mark.scenario("C1")
def helper(): ...

@pytest.mark.scenario()
def test_e(): ...
"""


def test_every_id_has_its_form() -> None:
    assert [name for name in scenarios() if not FORM.fullmatch(name)] == []


def test_every_required_scenario_has_a_test() -> None:
    assert REQUIRED - scenarios().keys() == set()


def test_every_marked_test_exists() -> None:
    assert {test for tests in scenarios().values() for test in tests} - names_of_tests() == set()


def test_marks_of_a_test_its_parameters_its_class_and_its_module_are_found() -> None:
    assert list(marked(ast.parse(PLANTED))) == [
        *[("test_a", "A1")],
        *[("test_b", "A1"), ("test_b", "A2"), ("test_b", "A3")],
        *[("TestC::test_d", "A1"), ("TestC::test_d", "B1")],
        *[("test_e", "A1"), ("test_e", "")],
    ]


@pytest.mark.parametrize("name", ["", "E", "1", "e1", "E0", "E01", "E123", "E1 ", "E1,E2", "E-1"])
def test_a_wrong_id_is_told_from_a_right_one(name: str) -> None:
    assert not FORM.fullmatch(name)
    assert FORM.fullmatch("E1")
    assert FORM.fullmatch("E10")


def test_the_table_is_printed_and_no_test_is_run() -> None:
    finished = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--scenarios")
    finished.check()
    assert finished.output == table()
    assert "E1   tests/storage/test_growth.py::" in finished.output
