"""Another process goes on with a session whose process was killed in a run: its request is legal."""

from pathlib import Path

import pytest

from apps import KEY, app_with
from children import Child
from desk import PATIENCE, assert_legal, told
from intermission import Runner
from intermission.testing import ScriptedModel

TOLD = {
    "one_by_one": ["a", "unknown", "not_started"],
    "at_once": ["a", "unknown", "unknown"],
    "streaming": [],
}


@pytest.mark.scenario("B1", "B4", "B6")
@pytest.mark.parametrize("mode", TOLD)
def test_after_a_kill_the_next_request_is_legal_and_says_what_became_of_each_call(
    mode: str, tmp_path: Path
) -> None:
    with Child("killed", tmp_path / "log", mode) as child:
        assert child.hear() == "standing"
        child.kill()
    model = ScriptedModel(default="ok")
    for message in ("And?", "And now?"):  # the second time, the log was written by this process, too
        with Runner(app_with(model), log=tmp_path / "log") as runner:
            assert runner.run(**KEY, message=message).answer(PATIENCE) == "ok"
    assert_legal(model.requests)
    assert [told(request.contents) for request in model.requests] == [TOLD[mode]] * 2
    assert "Hello" not in str(model.requests)
