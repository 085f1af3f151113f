"""The command line `fxgraph`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, TextIO, cast

from pytest_fxgraph import __version__
from pytest_fxgraph.command.output import FAILED, INTERRUPTED, SAME
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.report.printable import printable_line

# A verb is the module of its name, with HELP, `add_arguments` and `run`. The module is imported when the command line
# names the verb, or when the help lists all verbs: `fxgraph show` does not wait for pages and comparisons.
_VERBS = ("show", "diff", "draw", "accept", "review", "report", "replay", "bisect", "repeat", "store")
_RUN_PYTEST = ("replay", "bisect", "repeat")  # verbs with arguments of pytest after `--`
_COMPLETION = "completion"
_SHELLS = ("bash", "zsh", "fish", "tcsh")
# deepdiff imports these, where they are installed, to know their types. Goldens hold texts alone.
_NEEDED_BY_NO_GOLDEN = ("numpy", "pydantic", "pandas", "polars")
_FILES = ("G", "A", "B", "FILE", "PATH", "REPORT.json", "GLOB")

_EXAMPLES = """\
examples:
  fxgraph show golden/tests/test_model/test_encoder.yaml
      the graph, a node a line, with its modules and state
  fxgraph show --code golden/tests/test_model/test_encoder.yaml
      the Python code that was generated for it
  fxgraph diff old.yaml new.yaml
      what differs, in words; nothing if they are the same graph
  fxgraph diff --level exact golden_before/ golden_after/
      all goldens of two folders, to the letter
  fxgraph diff -o diff.html golden_before/ golden_after/
      the same as a page, with the graphs drawn as one overlay
  fxgraph diff HEAD~1:golden golden
      what has happened to the goldens since the last commit but one
  fxgraph diff before.pt2 after.pt2
      what differs between two programs that torch.export.save wrote
  fxgraph draw golden/tests/test_model/test_encoder.yaml -o encoder.svg
      a picture of the graph; .html, .mmd and .dot, too
  fxgraph show --cost golden/tests/test_model/test_encoder.yaml
      what the graph costs, module by module, as a golden of level cost holds it
  fxgraph diff --cost HEAD~1:golden golden
      what costs more, or less, than it did before the last commit
  fxgraph accept
      what pytest --fx-received wrote, one cause of many differences told once
  fxgraph accept --cluster 3f09ac
      these goldens are right: put them in place of the old ones
  fxgraph review
      accept, reject or skip it by a key, one cause after the other
  fxgraph report --unused shard1.json shard2.json
      the goldens that no test asked for in any of these runs
  fxgraph report shard1.json shard2.json -o fx.md
      one report of all shards, for a pull request
  fxgraph repeat -- tests/models
      run these tests three times, and tell the graphs that differ
  fxgraph store show s3://bucket/main
      runs, tests, graphs and sizes of a recording
  fxgraph store prune --older-than 30d s3://bucket/main
      remove what runs recorded longer ago
  eval "$(fxgraph completion bash)"
      complete commands, options and files in this shell; zsh, fish and tcsh, too

The exit status is that of diff: 0 where nothing differs, 1 where something does, 2 after an error.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0, 1 if something differs, 2 after an error.

    Raises SystemExit for wrong arguments, as argparse does.
    """
    if arguments is None:  # the process is the command's own
        for name in _NEEDED_BY_NO_GOLDEN:  # refused to importers, which takes a third off `fxgraph diff`
            sys.modules.setdefault(name, cast(Any, None))
    given = list(sys.argv[1:] if arguments is None else arguments)
    _never_fail_at_a_character(sys.stdout, sys.stderr)
    try:
        options = parsed(given)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except GateError as error:
        print(f"fxgraph: {printable_line(str(error))}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("fxgraph: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def parsed(given: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Arguments of pytest, after `--`, are `arguments`. Raises SystemExit for wrong arguments."""
    verb = next((word for word in given if not word.startswith("-")), None)
    # argparse would take the first argument of pytest for a missing argument of ours.
    end = given.index("--") if verb in _RUN_PYTEST and "--" in given else len(given)
    options = _parser(verb).parse_args(given[:end])
    options.arguments = [*given[end + 1 :]]
    return options


def _never_fail_at_a_character(*streams: TextIO) -> None:
    """Make streams write a character outside their encoding as an escape."""
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _parser(verb: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of one verb, or of all verbs if the word is no verb."""
    parser = argparse.ArgumentParser(
        prog="fxgraph",
        description="Read, compare and draw goldens, without importing torch, and models in .pt2 and .onnx files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for each in (verb,) if verb in _VERBS else _VERBS:
        module = importlib.import_module(f"pytest_fxgraph.command.{each}")
        of_verb = commands.add_parser(each, help=module.HELP, description=getattr(module, "DESCRIPTION", None))
        module.add_arguments(of_verb)
        of_verb.set_defaults(run=module.run)
    if verb not in _VERBS:
        _add_completion(commands, parser)
    return parser


def _add_completion(commands: Any, root: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        _COMPLETION,
        help="print a script that completes this command in a shell",
        description='Needs the extra: pip install "pytest-fxgraph[completion]". bash: `eval "$(fxgraph completion '
        'bash)"` in ~/.bashrc. zsh: `fxgraph completion zsh > _fxgraph` in a folder of $fpath. fish: `fxgraph '
        "completion fish > ~/.config/fish/completions/fxgraph.fish`. Print it anew after an upgrade.",
    )
    parser.add_argument("shell", choices=_SHELLS, help="the shell that is to complete")
    parser.set_defaults(run=lambda options: _complete(root, options.shell))


def _complete(root: argparse.ArgumentParser, shell: str) -> int:
    try:
        import shtab
    except ImportError:
        raise GateError(
            'cannot write completions: the library shtab is not installed; pip install "pytest-fxgraph[completion]"'
        ) from None
    from pytest_fxgraph.choices import LEVELS

    (commands,) = (action for action in root._actions if isinstance(action, argparse._SubParsersAction))
    for verb in commands._choices_actions:  # shtab shows descriptions; ours are paragraphs
        commands.choices[verb.dest].description = verb.help
    for action in (each for parser in commands.choices.values() for each in parser._actions):
        if action.metavar == "LEVEL":
            action.choices = LEVELS
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY
        elif action.metavar in _FILES:
            action.complete = shtab.FILE
    print(shtab.complete(root, shell))
    return SAME


if __name__ == "__main__":
    sys.exit(main())
