"""The command line: `intermission --help`."""

import argparse
import os
import sys
from collections.abc import Sequence

from intermission.version import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    It is 0, 1 when the work failed, 2 for wrong usage, 130 after Ctrl-C.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    if options.log == "":
        parser.error("--log needs the name of a folder")
    if (options.model_url is None) != (options.model is None):
        parser.error("--model-url and --model go together: the server's address and the model's name there")
    # Imported here, so that --help and --version need no model client and no log.
    from intermission.cli.demo import demo
    from intermission.cli.terminal import Screen
    from intermission_storage import StorageError

    screen = Screen()
    try:
        return demo(model_url=options.model_url, model=options.model, log=options.log, screen=screen)
    except KeyboardInterrupt:
        screen.note("stopped by Ctrl-C; what was shown as final is kept")
        return 130
    except StorageError as error:
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
    demo = commands.add_parser(
        "demo",
        help="watch an agent stream, call a tool, and find its session again",
        description="Runs an agent over real HTTP and a log on disk. With no options the model is a scripted "
        "server on this machine; the options name any server that speaks OpenAI chat completions.",
    )
    demo.add_argument(
        "--model-url", metavar="URL", help="the server's base address, as in http://127.0.0.1:8080/v1"
    )
    demo.add_argument("--model", metavar="NAME", help="the model's name there")
    demo.add_argument("--log", metavar="DIR", help="keep the log in this folder")
    return parser
