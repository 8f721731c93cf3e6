"""What each command does with its options. The work itself is imported when its command is given."""

import argparse

from intermission.cli.terminal import Screen

__all__ = ["answer", "demo", "events", "export", "pending", "recover", "resume", "run", "sessions", "verify"]


def demo(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission demo`."""
    if (options.model_url is None) != (options.model is None):
        options.usage("--model-url and --model go together: the server's address and the model's name there")
    from intermission.cli.demo import demo as show

    return show(model_url=options.model_url, model=options.model, log=options.log, screen=screen)


def run(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission run`."""
    from intermission.cli.run import run as talk

    return talk(
        options.app,
        options.message,
        log=options.log,
        user=options.user,
        session=options.session,
        streaming=not options.whole,
        screen=screen,
    )


def recover(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission recover`."""
    from intermission.cli.recovering import recover as go_on

    return go_on(options, screen)


def pending(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission pending`."""
    from intermission.cli.pausing import list_pending

    return list_pending(options.log, options.app, options.user, options.session)


def answer(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission answer`."""
    from intermission.cli.pausing import answer as give

    if options.reply is not None:
        response = options.reply
    elif options.approve:
        response = {"confirmed": True, "payload": options.payload}
    else:
        response = {"confirmed": False, "hint": options.reject}
    if options.payload is not None and not options.approve:
        options.usage("--payload goes with --approve: it is what the tool is given with the approval")
    return give(
        options.app,
        options.call,
        response,
        decides=options.reply is None,
        log=options.log,
        user=options.user,
        session=options.session,
        by=options.by,
        streaming=not options.whole,
        screen=screen,
    )


def resume(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission resume`."""
    from intermission.cli.pausing import resume as go_on

    return go_on(
        options.app,
        options.invocation,
        log=options.log,
        user=options.user,
        session=options.session,
        streaming=not options.whole,
        screen=screen,
    )


def sessions(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission sessions`."""
    from intermission.cli.logs import list_sessions

    return list_sessions(options.log, options.app)


def events(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission events`."""
    from intermission.cli.logs import show_events

    return show_events(options.log, options.app, options.user, options.session, options.after)


def verify(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission verify`."""
    from intermission.cli.logs import verify_log

    return verify_log(options.log, screen)


def export(options: argparse.Namespace, screen: Screen) -> int:
    """`intermission export`."""
    from intermission.cli.logs import export_log

    return export_log(options.log)
