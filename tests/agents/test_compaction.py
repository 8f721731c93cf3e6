"""What summaries stand for, and what a model is told in their place."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scale
from apps import KEY
from intermission import (
    App,
    Content,
    Event,
    EventActions,
    EventsCompactionConfig,
    FunctionCall,
    LlmAgent,
    LongRunningFunctionTool,
    ResumabilityConfig,
    Runner,
    SequentialAgent,
)
from intermission.agents.compaction import Compacted, compaction_of, is_due, window
from intermission.agents.contents import asking, conversation
from intermission.agents.summaries import summary_request
from intermission.pending import CONFIRMATION
from intermission.testing import ScriptedModel, calls, contents_problems
from intermission_storage import MemoryEventLog
from play import answering, calling, said
from wire_shapes import problems_on_the_wire


def summary(start: int, end: int, text: str = "sum") -> Event:
    """The event that has a summary stand for the events of these numbers."""
    given = [said("", seq=start), said("", seq=end)]
    return said(None, "user", actions=compaction_of(given, text))


def numbered(*events: Event) -> list[Event]:
    return [event.stored_as(seq) for seq, event in enumerate(events, 1)]


def talk(*invocations: str) -> list[Event]:
    """A question and an answer of each invocation, numbered."""
    pairs = [
        [said(f"q{one}", "user", invocation_id=one), said(f"a{one}", invocation_id=one)]
        for one in invocations
    ]
    return numbered(*(event for pair in pairs for event in pair))


def told(events: list[Event], **options: Any) -> list[str]:
    """What a model is told, each message in a word."""
    words: list[str] = []
    for content in conversation(events, "a", **options):
        words += [f"call {call.id}" for call in content.function_calls]
        words += [f"response {answer.id}" for answer in content.function_responses]
        words += [content.text.removeprefix("For context, a summary of what was said before:\n")] * bool(
            content.text
        )
    return words


def test_a_summary_is_due_when_there_are_enough_invocations_since_the_last_one() -> None:
    events = talk("1", "2", "3")
    assert not is_due(events, 5, "4")
    assert is_due(events, 4, "4")
    assert not is_due(events, 4, "3")  # it is one of them
    events += numbered(*[said("")] * 6, summary(1, 6))[6:]
    assert not is_due(events, 2, "4")
    assert is_due(events, 1, "4")


def test_a_window_holds_what_is_new_and_as_many_invocations_before_as_it_is_to_overlap() -> None:
    events = talk("1", "2", "3")
    assert window(events, 2) == events
    later = [*events, summary(1, 6).stored_as(7)]
    more = [one.stored_as(one.seq + 7) for one in talk("4", "5") if one.seq is not None]

    assert window([*later, *more], 0) == more
    assert window([*later, *more], 1) == [*events[4:], *more]
    assert window([*later, *more], 9) == [*events, *more]


def test_a_new_invocation_that_began_long_ago_does_not_make_the_window_longer() -> None:
    events = [*talk("1", "2", "3"), summary(1, 6).stored_as(7), said("late", invocation_id="1", seq=8)]

    assert window(events, 0) == events[7:]
    assert window(events, 1) == [*events[4:6], events[7]]


def test_a_summary_stands_in_the_place_of_what_it_stands_for_and_later_ones_behind_it() -> None:
    events = [*talk("1", "2", "3"), summary(1, 4).stored_as(7), *numbered(*[said("new")] * 8)[7:]]
    assert told(events) == ["sum", "q3", "a3", "new"]
    assert [event.seq for event in Compacted(events).told] == [None, 5, 6, 8]


def test_of_two_summaries_one_that_takes_in_the_other_stands_for_both_and_overlapping_ones_both_stay() -> (
    None
):
    events = talk("1", "2", "3")
    assert told([*events, summary(1, 2, "old"), summary(1, 4, "new")]) == ["new", "q3", "a3"]
    assert told([*events, summary(1, 4, "one"), summary(3, 6, "two")]) == ["one", "two"]
    assert told([*events, summary(5, 6, "two"), summary(1, 2, "one")]) == ["one", "q2", "a2", "two"]


def test_a_summary_that_names_no_numbers_stands_for_nothing() -> None:
    foreign = EventActions(compaction={"startTimestamp": 1.0, "endTimestamp": 9.0})
    assert told([*talk("1"), said(None, "user", actions=foreign)]) == ["q1", "a1"]


def test_who_is_told_only_the_current_turn_is_told_no_summary() -> None:
    assert told([*talk("1", "2"), summary(1, 3)], current_turn=True) == ["q2", "a2"]


@pytest.mark.scenario("B7")
@pytest.mark.parametrize("cut", range(1, 8))
def test_a_cut_inside_a_turn_of_parallel_calls_leaves_out_none_of_it(cut: int) -> None:
    turn = [calling("x", "y", "z"), answering("x"), answering("y", "z")]
    events = numbered(said("before", "user"), said("well"), *turn, said("done"), said("after", "user"))

    seen = told([*events, summary(1, cut)])

    whole = ["call x", "call y", "call z", "response x", "response y", "response z"]
    if cut in {1, 2, 3, 4}:
        assert seen[: len(seen) - 2] == ["sum", *["well"] * (cut == 1), *whole]
    else:
        assert seen == ["sum", *(["done"] if cut == 5 else []), *(["after"] if cut < 7 else [])]


def test_a_call_that_waits_is_told_until_it_is_answered_and_then_until_that_is_summed_up_too() -> None:
    events = numbered(said("before", "user"), calling("x", long_running_tool_ids=("x",)), said("so", "user"))
    assert told([*events, summary(1, 3)]) == ["sum", "call x", "response x"]
    answered = [*events, summary(1, 3).stored_as(4), answering("x", author="user", seq=5)]
    assert told(answered) == ["sum", "call x", "response x"]
    assert told([*answered, summary(5, 5, "more")]) == ["sum", "more"]


def test_a_call_about_which_a_question_waits_is_told_and_one_that_nobody_will_answer_is_not() -> None:
    about: dict[str, Any] = {"originalFunctionCall": {"id": "x", "name": "look", "args": {}}}
    asked = Content.model(calls=[FunctionCall("q", CONFIRMATION, about)])
    question = said(asked, long_running_tool_ids=("q",))
    events = numbered(said("before", "user"), calling("x"), question, said("so", "user"))

    assert told([*events, summary(1, 4)])[:2] == ["sum", "call x"]
    assert told([*events, answering("q", author="user", seq=5), summary(1, 5)]) == ["sum"]
    assert told([*numbered(said("before", "user"), calling("x")), summary(1, 2)]) == ["sum"]


IDS = st.sampled_from(["1", "2", "3"])
STEPS = st.lists(
    st.one_of(
        st.just(("said", ())),
        st.tuples(st.sampled_from(["calls", "waits", "answers"]), st.lists(IDS, min_size=1, unique=True)),
    ),
    max_size=12,
)


@settings(max_examples=scale.rounds(300, 5000))
@given(STEPS, st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=3))
def test_wherever_summaries_cut_the_conversation_is_legal_and_holds_each_call_that_waits(
    steps: list[tuple[str, tuple[str, ...]]], cuts: list[tuple[int, int]]
) -> None:
    events, called = [said("hi", "user")], dict[str, str]()
    waiting = set[str]()
    for number, (what, ids) in enumerate(steps):
        if what == "said":
            events.append(said("hi", "user"))
        elif what == "answers":
            known = [called[one] for one in ids if one in called]
            waiting -= set(known)
            events.append(answering(*known, author="user"))
        else:
            called |= {one: f"{one}-{number}" for one in ids}
            mine = tuple(called[one] for one in ids)
            waiting |= set(mine) if what == "waits" else set()
            events.append(calling(*mine, long_running_tool_ids=mine if what == "waits" else ()))
    events = numbered(*events, said("and now?", "user"))  # else what lies before an answer is left out
    events += [summary(min(cut), max(cut)) for cut in cuts]

    contents = asking(conversation(events, "a"))

    assert contents_problems(contents) == []
    assert problems_on_the_wire(contents) == {}
    assert waiting <= {call.id for content in contents for call in content.function_calls}


def test_the_summarizing_model_is_told_everything_but_thoughts_and_long_lines_are_cut() -> None:
    events = [said("hi", "user"), calling("x"), answering("x"), calling("y"), said("z" * 5000, "b")]
    request = summary_request(events)

    (content,) = request.contents
    lines = content.text.split("\n")
    assert lines[0] == "user said: hi"
    assert lines[1] == "a called look with {}"
    assert lines[2].startswith("look answered a with ")
    assert lines[3] == "a called look with {} (no answer yet)"
    assert lines[4].endswith("… (1008 more characters)")
    assert request.tools == ()


def test_the_summarizer_is_by_default_the_root_agents_model_and_without_one_the_app_is_refused() -> None:
    model = ScriptedModel()
    config = EventsCompactionConfig(3, 1)
    app = App("app", LlmAgent("agent", model), events_compaction_config=config)
    assert app.events_compaction_config is not None
    assert app.events_compaction_config.summarizer is model

    with pytest.raises(ValueError, match="summarizer"):
        App(
            "app",
            SequentialAgent("all", sub_agents=[LlmAgent("agent", model)]),
            events_compaction_config=config,
        )


@pytest.mark.parametrize(("interval", "overlap"), [(0, 0), (-1, 0), (1, -1)])
def test_an_interval_of_nothing_and_a_negative_overlap_are_refused(interval: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="or more"):
        EventsCompactionConfig(interval, overlap)


def test_what_is_no_number_and_no_summarizer_is_refused() -> None:
    wrong: Any = "3"
    with pytest.raises(TypeError, match="interval must be an int"):
        EventsCompactionConfig(wrong, 0)
    with pytest.raises(TypeError, match="summarizer"):
        EventsCompactionConfig(3, 0, wrong)


@pytest.mark.scenario("B7")
def test_a_pause_over_a_cut_is_gone_on_with_and_the_model_sees_its_calls_with_their_responses() -> None:
    def measure(number: int) -> None:
        """Measure, which takes days."""

    model = ScriptedModel(calls(*(("measure", {"number": n}) for n in (1, 2, 3))), default="All right.")
    app = App(
        "app",
        LlmAgent("agent", model, tools=[LongRunningFunctionTool(measure)]),
        resumability_config=ResumabilityConfig(is_resumable=True),
        events_compaction_config=EventsCompactionConfig(2, 0, lambda events: f"{len(events)} events"),
    )
    with Runner(app, log=MemoryEventLog()) as runner:
        session = runner.session(**KEY)
        first, second, third = session.run("Measure thrice.").result().pending
        session.run("Meanwhile?").answer()  # the pause and this are summed up
        assert session.events()[-1].actions.compaction is not None
        assert [call.id for call in runner.pending(**KEY)] == [first.id, second.id, third.id]

        session.resume([third.reply({"n": 3})]).result()
        session.run("And now?").answer()
        session.run(
            "Still?"
        ).answer()  # now an answer of the three is summed up, and the others are not there
        result = session.resume([second.reply({"n": 2}), first.reply({"n": 1})]).result()

    assert result.text == "All right."
    for request in model.requests:
        assert contents_problems(request.contents) == []
        assert problems_on_the_wire(request.contents) == {}
    last = model.requests[-1].contents
    assert "events" in last[0].text
    (turn,) = [content for content in last if content.function_calls]
    answers = last[last.index(turn) + 1].function_responses
    assert [answer.response for answer in answers] == [{"n": 1}, {"n": 2}, {"n": 3}]
