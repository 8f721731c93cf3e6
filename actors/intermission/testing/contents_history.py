"""What would keep a provider's client from making a legal request of a conversation. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

from intermission.content import Content, FunctionCall, Part

__all__ = ["HistoryRules", "contents_problems"]

HistoryRules: TypeAlias = Literal["openai", "anthropic", "gemini"]
"""Whose rules a conversation is to obey."""

_ID_LENGTH = 40  # characters; OpenAI's limit
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")


def contents_problems(contents: Sequence[Content], rules: HistoryRules | None = None) -> list[str]:
    """Return what is wrong with the contents of a `ModelRequest`, with their indexes; `[]` if nothing is.

    There is at least one, and each says something. Calls stand in messages of the model and have ids that
    differ, in the whole conversation. Behind a message with calls stands one of the user with their
    responses, one for each and in the order of the calls, before anything else that it holds; there are no
    other responses, and each has the name of its call. The conversation begins with the user. Two messages of
    one role may follow each other: joining them is the client's affair.

    Args:
        contents: The conversation, oldest first.
        rules: What else a provider demands: of `"openai"`, short ids; of `"anthropic"`, ids of letters,
            digits, `_` and `-`, and that the user speaks last; of `"gemini"`, the latter. `None`: of all.

    Raises:
        ValueError: There are no such rules.
    """
    chosen = get_args(HistoryRules) if rules is None else (rules,)
    if not set(chosen) <= set(get_args(HistoryRules)):
        raise ValueError(f"there are no rules {rules!r}: there are {', '.join(get_args(HistoryRules))}")
    if not contents:
        return ["the conversation is empty"]
    found: list[str] = []
    seen: set[str] = set()
    asked: tuple[FunctionCall, ...] = ()
    for index, content in enumerate(contents):
        problems = [*_of_content(content), *_of_answers(content, asked), *_of_ids(content, seen, chosen)]
        found += (f"contents[{index}]: {problem}" for problem in problems)
        asked = content.function_calls
        seen.update(call.id for call in asked)
    if asked:
        found.append(f"contents[{len(contents)}]: nothing answers {_named(asked)}")
    if contents[0].role == "model":
        found.append("contents[0]: a conversation does not begin with the model")
    if contents[-1].role == "model" and set(chosen) & {"anthropic", "gemini"}:
        found.append(f"contents[{len(contents) - 1}]: a conversation does not end with the model")
    return found


def _of_content(content: Content) -> Iterator[str]:
    if content.role not in ("user", "model"):
        yield f"there is no role {content.role!r}"
    if not any(_says_something(part) for part in content.parts):
        yield f"the {content.role} says nothing"
    for index, part in enumerate(content.parts):
        if _kinds(part) != 1:
            yield f"parts[{index}] is {_kinds(part)} things instead of one"
        elif part.text == "" and part.thought_signature is None:
            yield f"parts[{index}] is an empty text"
    if content.function_calls and content.role != "model":
        yield f"calls of the {content.role}"
    if content.function_responses and content.role != "user":
        yield f"responses of the {content.role}"


def _of_answers(content: Content, asked: Sequence[FunctionCall]) -> Iterator[str]:
    """Yield how a message fails to answer the calls of the one before it."""
    answers = content.function_responses
    made, given = [call.id for call in asked], [answer.id for answer in answers]
    if missing := [call for call in asked if call.id not in given]:
        yield f"it does not answer {_named(missing)}"
    if orphans := [answer for answer in given if answer not in made]:
        yield f"it answers {', '.join(map(repr, orphans))}, which nobody called right before"
    if len(set(given)) < len(given):
        yield "it answers a call twice"
    if sorted(made) == sorted(given) and made != given:
        yield "its responses are not in the order of the calls"
    names = {call.id: call.name for call in asked}
    for answer in answers:
        if answer.name != names.get(answer.id, answer.name):
            yield f"the response to {answer.id!r} has the name {answer.name!r} and not {names[answer.id]!r}"
    if any(part.function_response is None for part in content.parts[: len(answers)]):
        yield "something stands before its responses"


def _of_ids(content: Content, seen: set[str], rules: Sequence[str]) -> Iterator[str]:
    ids = [call.id for call in content.function_calls]
    if not all(ids):
        yield "a call has no id"
    if repeated := {name for index, name in enumerate(ids) if name and name in {*seen, *ids[:index]}}:
        yield f"another call has the id {', '.join(map(repr, sorted(repeated)))}"
    for name in filter(None, ids):
        if "openai" in rules and len(name) > _ID_LENGTH:
            yield f"the id {name!r} is longer than {_ID_LENGTH} characters"
        if "anthropic" in rules and not _ANTHROPIC_ID.fullmatch(name):
            yield f"the id {name!r} has characters that are none of letters, digits, _ and -"


def _says_something(part: Part) -> bool:
    if part.text is not None:
        return not part.thought and bool(part.text.strip())
    return _kinds(part) > 0


def _kinds(part: Part) -> int:
    things = (part.text, part.function_call, part.function_response, part.inline_data)
    return sum(thing is not None for thing in things)


def _named(calls: Sequence[FunctionCall]) -> str:
    return ", ".join(repr(call.id) for call in calls)
