from hypothesis import given
from hypothesis import strategies as st

from intermission import Blob, Content, FunctionCall, FunctionResponse, Part

PLAIN = st.dictionaries(
    st.text(), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
)
PARTS = st.one_of(
    st.builds(Part, text=st.text(), thought=st.booleans(), thought_signature=st.none() | st.binary()),
    st.builds(Part, function_call=st.builds(FunctionCall, st.text(), st.text(), PLAIN)),
    st.builds(Part, function_response=st.builds(FunctionResponse, st.text(), st.text(), PLAIN)),
    st.builds(Part, inline_data=st.builds(Blob, st.just("image/png"), st.binary())),
)
CONTENTS = st.builds(Content, st.sampled_from(["user", "model"]), st.lists(PARTS).map(tuple))


@given(CONTENTS)
def test_content_comes_back_equal_from_its_json_form(content: Content) -> None:
    assert Content.from_dict(content.to_dict()) == content


def test_the_text_of_content_leaves_thoughts_out() -> None:
    content = Content("model", (Part(text="I think", thought=True), Part(text="a"), Part(text="b")))

    assert content.text == "ab"


def test_the_json_form_has_the_names_of_adk() -> None:
    content = Content("user", (Part(inline_data=Blob("image/png", b"\x00\xff")),))
    call = Part(function_call=FunctionCall("c1", "look", {"x": 1}), thought_signature=b"\x00\xff")

    assert content.to_dict() == {
        "role": "user",
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AP8="}}],
    }
    assert call.to_dict() == {
        "functionCall": {"id": "c1", "name": "look", "args": {"x": 1}},
        "thoughtSignature": "AP8=",
    }
