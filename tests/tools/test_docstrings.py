import pytest

from intermission.tools.docstrings import described_parameters

GOOGLE = """Ship an order.

Not twice.

Args:
    order_id: Which one,
        as the shop has it.
    count (int, optional): How many: one or more.

Returns:
    What was shipped.
"""

NUMPY = """Ship an order.

Not twice.

Parameters
----------
order_id : str
    Which one,
    as the shop has it.
count : int, optional
    How many: one or more.

Returns
-------
dict
    What was shipped.
"""

SPHINX = """Ship an order.

Not twice.

:param order_id: Which one,
    as the shop has it.
:param int count: How many: one or more.
:type count: int
:returns: What was shipped.
"""

DESCRIBED = {"order_id": "Which one, as the shop has it.", "count": "How many: one or more."}


@pytest.mark.parametrize(
    ("docstring", "rest"),
    [
        (GOOGLE, "Ship an order.\n\nNot twice.\n\nReturns:\n    What was shipped."),
        (NUMPY, "Ship an order.\n\nNot twice.\n\nReturns\n-------\ndict\n    What was shipped."),
        (SPHINX, "Ship an order.\n\nNot twice.\n\n:returns: What was shipped."),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_what_a_docstring_says_of_parameters_is_parted_from_the_rest(docstring: str, rest: str) -> None:
    assert described_parameters(docstring, ["order_id", "count"]) == (rest, DESCRIBED)


@pytest.mark.parametrize(
    "docstring",
    [
        "",
        "Ship an order.",
        "Ship an order.\n\nArgs: none.",
        "Ship an order.\n\nArgs:\n    It takes no notice of order_id.",
        "Ship an order.\n\nArgs:\n    weight: In kg.",
        "Ship an order.\n\nArgs:\n    order_id: Which.\n    weight: In kg.",
        "Ship an order.\n\nArgs:",
        "Parameters\n----------",
        "Parameters\n\norder_id",
        "Ship it: order_id: which\n\n\n\none",
        ":param weight: In kg.",
    ],
)
def test_what_is_not_certainly_about_the_parameters_stays_where_it_is(docstring: str) -> None:
    assert described_parameters(docstring, ["order_id"]) == (docstring, {})


def test_a_parameter_with_nothing_said_of_it_has_no_description() -> None:
    docstring = "Ship.\n\nParameters\n----------\norder_id : str\ncount\n    How many."
    assert described_parameters(docstring, ["order_id", "count"]) == ("Ship.", {"count": "How many."})


def test_paragraphs_and_lists_of_a_description_become_one_line() -> None:
    docstring = "Ship.\n\nArgs:\n    order_id: One of\n\n        - a\n        - b\n\nNotes: none."
    assert described_parameters(docstring, ["order_id"]) == (
        "Ship.\n\nNotes: none.",
        {"order_id": "One of - a - b"},
    )
