"""Events → the conversation that a model is asked about. Pure: no I/O, no clock."""

from collections.abc import Iterable

from intermission.content import Content, FunctionCall, FunctionResponse, Part
from intermission.events import Event

__all__ = ["UNKNOWN_OUTCOME", "conversation"]

UNKNOWN_OUTCOME = {
    "status": "unknown",
    "message": "The run ended before this call was answered. It may or may not have had its effect.",
}


def conversation(events: Iterable[Event]) -> tuple[Content, ...]:
    """Return what was said, oldest first, so that every call is followed by its response.

    A call whose run ended before an answer is answered here, with an unknown outcome: providers refuse a
    conversation with an open call. The log is not changed. A response without its call is left out, and so
    are thoughts.
    """
    contents: list[Content] = []
    open_calls: list[FunctionCall] = []
    for event in events:
        if event.partial or event.content is None:
            continue
        parts = event.content.parts
        if not open_calls and len(parts) == 1 and parts[0].text is not None and not parts[0].thought:
            contents.append(event.content)  # nearly all events are this one
            continue
        responses = event.content.function_responses
        if responses:
            answers = {response.id: response for response in responses}
            contents += _answered(open_calls, answers)
            open_calls = []
        spoken = tuple(part for part in parts if not part.thought and part.function_response is None)
        if not spoken:
            continue
        contents += _answered(open_calls, {})
        contents.append(event.content if len(spoken) == len(parts) else Content(event.content.role, spoken))
        open_calls = list(event.content.function_calls)
    return (*contents, *_answered(open_calls, {}))


def _answered(calls: list[FunctionCall], answers: dict[str, FunctionResponse]) -> list[Content]:
    if not calls:
        return []
    responses = (
        answers.get(call.id) or FunctionResponse(call.id, call.name, UNKNOWN_OUTCOME) for call in calls
    )
    return [Content("user", tuple(Part(function_response=response) for response in responses))]
