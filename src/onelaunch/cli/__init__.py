"""The ``onelaunch`` command: one file a subcommand, and how each of them ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from onelaunch import __version__
from onelaunch.cli.ab import ab
from onelaunch.cli.acceptance import acceptance
from onelaunch.cli.bench import bench
from onelaunch.cli.demo import demo
from onelaunch.cli.doctor import doctor
from onelaunch.cli.errors import CheckFailed
from onelaunch.cli.evaluate import evaluate
from onelaunch.cli.generate import generate
from onelaunch.cli.launches import launches
from onelaunch.cli.load import load
from onelaunch.cli.prove import prove
from onelaunch.cli.serve import serve
from onelaunch.cli.signals import INTERRUPTED
from onelaunch.cli.sync_check import sync_check
from onelaunch.cli.targets import targets
from onelaunch.cli.verify import verify

__all__ = ["app", "main"]

# A traceback that rich draws hides the plain one that a bug report needs.
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
for command in (demo, verify, bench, doctor, targets, serve, generate, launches, load, ab, acceptance, prove):
    app.command()(command)
# Options after the command are the command's.
app.command("sync-check", context_settings={"allow_interspersed_args": False})(sync_check)
app.add_typer(evaluate, name="evaluate")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"onelaunch {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """The attention metadata of an LLM decode step in one GPU launch."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, 1 for a failed check, 2 for bad input, each with a one-line message.

    Raises:
        SystemExit: always.
    """
    try:
        status = app(args=arguments, prog_name="onelaunch", standalone_mode=False)
    except CheckFailed as error:
        sys.exit(_say(error, 1))
    except (ValueError, OSError) as error:
        sys.exit(_say(error, 2))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except Exception as error:
        # A wrong option. Its class is Typer's own or click's, by Typer's version; both format themselves.
        if not hasattr(error, "format_message"):
            raise
        sys.exit(_say(error.format_message(), 2))
    sys.exit(status or 0)


def _say(message: object, status: int) -> int:
    print("onelaunch:", " ".join(str(message).split("\n")), file=sys.stderr)
    return status
