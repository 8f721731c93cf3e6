"""The command line: `intermission --help`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from intermission.version import __version__

__all__ = ["main"]

_APP = "as in chat.py:app or shop.agents:support"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    It is 0, 1 when the work failed, 2 for wrong usage, 130 after Ctrl-C.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    if options.log == "":
        parser.error("the log needs the name of a folder")
    # Imported here, so that --help and --version need no model client and no log.
    from intermission.cli.terminal import Screen
    from intermission.errors import IntermissionError
    from intermission_storage import StorageError

    screen = Screen()
    try:
        run: Callable[[argparse.Namespace, Screen], int] = options.run
        return run(options, screen)
    except KeyboardInterrupt:
        screen.end()  # a line may be half written, and a terminal has shown ^C
        screen.note(f"stopped by Ctrl-C{'; what was shown as final is kept' if options.log else ''}")
        return 130
    except (StorageError, IntermissionError) as error:
        screen.line("error", str(error), "red")
        return 1
    except BrokenPipeError:
        # Whoever read has gone, as `head` does. Python would complain once more when it ends and flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="intermission", description="An embedded actor runtime for LLM-agent sessions."
    )
    parser.add_argument("--version", action="version", version=f"intermission {__version__}")
    commands = parser.add_subparsers(title="commands", required=True)

    from intermission.cli import commands as known

    demo = commands.add_parser(
        "demo",
        help="watch agents stream, call tools, wait for an approval, be cancelled, and outlive a kill -9",
        description="Runs agents over real HTTP and a log on disk, and kills a process of its own. With no "
        "options the model is a scripted server on this machine; the options name any server that speaks "
        "OpenAI chat completions.",
    )
    demo.add_argument(
        "--model-url", metavar="URL", help="the server's base address, as in http://127.0.0.1:8080/v1"
    )
    demo.add_argument("--model", metavar="NAME", help="the model's name there")
    demo.add_argument("--log", metavar="DIR", help="keep the log in this folder")
    demo.set_defaults(run=known.demo, usage=demo.error)

    run = commands.add_parser(
        "run",
        help="send a message to an app of yours and watch its answer come",
        description="Runs an app, or an agent, that a module or a file defines. Without a message, each line "
        "of the standard input is one. Ctrl-C cancels the run and says what is left of it.",
    )
    run.add_argument("app", metavar="MODULE:APP", help=_APP)
    run.add_argument("message", metavar="TEXT", nargs="?", help="what to say; without it, lines are read")
    _add_session(run)
    run.set_defaults(run=known.run)
    _add_recover(commands.add_parser, known.recover)

    _add_pausing(commands.add_parser)

    _add_looks(commands.add_parser)
    return parser


def _add_looks(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands that look into a log."""
    from intermission.cli import commands as known

    sessions = add_parser(
        "sessions",
        help="list the sessions of a log, a line of JSON each",
        description="Lists the sessions of a log, a line of JSON each: its key, the number of its last "
        "record, and which process has it, if one does. Nothing is written.",
    )
    sessions.add_argument("log", metavar="LOG", help="the log's folder")
    sessions.add_argument("--app", help="only the sessions of this app")
    sessions.set_defaults(run=known.sessions)

    events = add_parser(
        "events",
        help="show the events of a session, a line of JSON each",
        description="Shows the stored events of a session, a line of JSON each, in the form of google-adk's "
        "clients. `intermission sessions LOG` lists the keys. Nothing is written.",
    )
    events.add_argument("log", metavar="LOG", help="the log's folder")
    events.add_argument("app", type=_name, metavar="APP", help="the app's name")
    events.add_argument("user", type=_name, metavar="USER", help="the user id")
    events.add_argument("session", type=_name, metavar="SESSION", help="the session id")
    events.add_argument(
        "--after", type=_number, default=0, metavar="N", help="only events with a higher number"
    )
    events.set_defaults(run=known.events)

    verify = add_parser(
        "verify",
        help="read all of a log and say what is wrong with it",
        description="Reads all of a log and says what is wrong with it; the exit code is 1 if something is. "
        "Nothing is written.",
    )
    verify.add_argument("log", metavar="LOG", help="the log's folder")
    verify.set_defaults(run=known.verify)

    export = add_parser(
        "export",
        help="write every record of a log, a line of JSON each",
        description="Writes every record of a log to the standard output, a line of JSON each.",
    )
    export.add_argument("log", metavar="LOG", help="the log's folder")
    export.set_defaults(run=known.export)


def _add_recover(add_parser: Callable[..., argparse.ArgumentParser], run: object) -> None:
    recover = add_parser(
        "recover",
        help="go on with the runs of an app of yours that dead processes have left",
        description="Continues what was left, up to the end of each run; the exit code is 1 if one failed.",
    )
    recover.add_argument("app", metavar="MODULE:APP", help=_APP)
    recover.add_argument("--log", metavar="DIR", help="the log's folder; by default APP.lmdb in this folder")
    recover.add_argument("--user", type=_name, help="only the runs of this user")
    recover.add_argument("--list", action="store_true", help="only say what was left")
    recover.add_argument(
        "--max-attempts", type=_positive, default=3, metavar="N", help="how often a run is continued; 3"
    )
    recover.add_argument("--parallel", type=_positive, default=8, metavar="N", help="how many at a time; 8")
    recover.add_argument("--take-over", action="store_true", help="take runs from processes that hang, too")
    recover.set_defaults(run=run)


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="DIR", help="the log's folder; by default APP.lmdb in this folder")
    parser.add_argument("--user", type=_name, default="you", help="the user id")
    parser.add_argument("--session", type=_name, default="default", help="the session id")
    parser.add_argument("--whole", action="store_true", help="show answers whole, and not as they come")


def _add_pausing(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands for runs that wait for an answer."""
    from intermission.cli import commands as known

    pending = add_parser(
        "pending",
        help="list the calls that wait for an answer, a line of JSON each",
        description="Lists the calls that wait for an answer, a line of JSON each, with the id that "
        "`intermission answer` takes.",
    )
    pending.add_argument("log", metavar="LOG", help="the log's folder")
    for name, what in (("--app", "app"), ("--user", "user"), ("--session", "session")):
        pending.add_argument(name, help=f"only the calls of this {what}")
    pending.set_defaults(run=known.pending)

    answer = add_parser(
        "answer",
        help="answer a call that waits, and watch its run go on",
        description="Answers one call of a paused run of an app and goes on with the run. "
        "`intermission pending` lists the ids. An answer that was given before changes nothing.",
    )
    answer.add_argument("app", metavar="MODULE:APP", help=_APP)
    answer.add_argument("call", metavar="ID", type=_name, help="the id of the pending call")
    says = answer.add_mutually_exclusive_group(required=True)
    says.add_argument("--approve", action="store_true", help="let it be made")
    says.add_argument("--reject", metavar="REASON", nargs="?", const="", help="do not let it be made")
    says.add_argument("--reply", metavar="JSON", type=_object, help="its result, a JSON object")
    answer.add_argument("--payload", metavar="JSON", type=_json, help="what the tool is given with --approve")
    answer.add_argument("--by", metavar="NAME", help="who answers; it is kept in the log")
    _add_session(answer)
    answer.set_defaults(run=known.answer, usage=answer.error)

    resume = add_parser(
        "resume",
        help="go on with a run that was interrupted, cancelled or has failed",
        description="Goes on with a run of an app by its id, on purpose. One that is over, or waits for an "
        "answer, stays as it is.",
    )
    resume.add_argument("app", metavar="MODULE:APP", help=_APP)
    resume.add_argument("invocation", metavar="INVOCATION", type=_name, help="the id of the run")
    _add_session(resume)
    resume.set_defaults(run=known.resume)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be JSON: {error}") from None


def _object(text: str) -> dict[str, Any]:
    value = _json(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, not {text!r}")
    return cast("dict[str, Any]", value)


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _positive(text: str) -> int:
    number = _number(text)
    if not number:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a number that is not negative, not {text!r}")
    return int(text)
