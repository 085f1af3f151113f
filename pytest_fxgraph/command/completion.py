"""`fxgraph completion`: a script that completes the command in a shell, made of the parsers of its commands.

The script is static: what it offers is written in it, so that a key press starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pytest_fxgraph.choices import LEVELS
from pytest_fxgraph.command.output import SAME, print_lines

# What an argument takes whose parser lists no choices, by its metavar; all others are files.
_WORDS = {"LEVEL": LEVELS, "K": ()}
_FOLDERS = "DIR"


@dataclass(frozen=True)
class _Argument:
    """An option, or what stands without one; `words` is None where it takes files."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    words: tuple[str, ...] | None
    name: str = ""

    @property
    def takes_folder(self) -> bool:
        return self.name == _FOLDERS


@dataclass(frozen=True)
class _Command:
    name: str
    help: str
    arguments: tuple[_Argument, ...]

    @property
    def options(self) -> list[_Argument]:
        return [argument for argument in self.arguments if argument.flags]

    @property
    def values(self) -> list[_Argument]:
        """What stands without an option; argparse takes these in any order of options."""
        return [argument for argument in self.arguments if not argument.flags]


def add_completion(commands: Any) -> None:
    """Add the command to the parser, which completes all that are there when it runs."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes this command in a shell",
        description='bash: `eval "$(fxgraph completion bash)"` in ~/.bashrc. zsh: `source <(fxgraph completion zsh)` '
        "after compinit, or `fxgraph completion zsh > _fxgraph` in a folder of $fpath. fish: `fxgraph completion fish "
        "> ~/.config/fish/completions/fxgraph.fish`. Print it anew after an upgrade.",
    )
    parser.add_argument("shell", choices=sorted(_SCRIPTS), help="the shell that is to complete")
    parser.set_defaults(run=lambda options: _run(options.shell, commands))


def _run(shell: str, commands: Any) -> int:
    helps = {action.dest: action.help for action in commands._choices_actions}
    print_lines(_SCRIPTS[shell]([_command(name, helps[name], parser) for name, parser in commands.choices.items()]))
    return SAME


def _command(name: str, help_text: str, parser: argparse.ArgumentParser) -> _Command:
    return _Command(name, help_text, tuple(_argument(action) for action in parser._actions))


def _argument(action: argparse.Action) -> _Argument:
    name = action.metavar if isinstance(action.metavar, str) else ""
    words = tuple(map(str, action.choices)) if action.choices is not None else _WORDS.get(name)
    help_text = (action.help or "").partition(";")[0].replace("%(default)s", str(action.default))
    return _Argument(tuple(action.option_strings), help_text, action.nargs != 0, words, name)


def _bash(commands: list[_Command]) -> Iterator[str]:
    yield "# Completes fxgraph in bash."
    yield "_fxgraph() {"
    yield "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words="
    yield "    COMPREPLY=()"
    # bash splits --level=exact into three words.
    yield "    if [ \"$current\" = '=' ]; then"
    yield "        current="
    yield "    elif [ \"$previous\" = '=' ]; then"
    yield "        previous=${COMP_WORDS[COMP_CWORD-2]}"
    yield "    fi"
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f"        words='{' '.join(command.name for command in commands)} --help --version'"
    yield "    else"
    yield '        case "${COMP_WORDS[1]} $previous" in'
    for command in commands:
        for option in command.options:
            if option.takes_value:
                pattern = "|".join(f"'{command.name} {flag}'" for flag in option.flags)
                yield f"            {pattern}) {_bash_value(option)} ;;"
    yield '            *) case "${COMP_WORDS[1]} $current" in'
    for command in commands:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        yield f"                '{command.name} '-*) words='{flags}' ;;"
        values = [word for value in command.values for word in value.words or ()]
        if values:
            yield f"                '{command.name} '*) words='{' '.join(values)}' ;;"
    yield "            esac ;;"
    yield "        esac"
    yield "    fi"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    # Where the function offers nothing, bash offers files.
    yield "complete -o bashdefault -o default -F _fxgraph fxgraph"


def _bash_value(option: _Argument) -> str:
    return "return" if option.words is None else f"words='{' '.join(option.words)}'"


def _zsh(commands: list[_Command]) -> Iterator[str]:
    yield "#compdef fxgraph"
    yield "_fxgraph() {"
    yield "    local -a commands"
    yield "    commands=("
    for command in commands:
        yield f"        {_quoted(f'{command.name}:{command.help}')}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield "        _describe -t commands command commands"
    yield "        _arguments '--help[show this help]' '--version[print the version]'"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words"
    yield "    (( CURRENT-- ))"
    yield "    case $command in"
    for command in commands:
        yield f"        {command.name})"
        yield f"            _arguments {' '.join(_zsh_arguments(command))} ;;"
    yield "    esac"
    yield "}"
    # As a file of $fpath it is called to complete; sourced, it has to be announced.
    yield 'if [[ $funcstack[1] == _fxgraph ]]; then _fxgraph "$@"; else compdef _fxgraph fxgraph; fi'


def _zsh_arguments(command: _Command) -> Iterator[str]:
    for option in command.options:
        excluded = f"({' '.join(option.flags)})" if len(option.flags) > 1 else ""
        text = option.help.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = f":{option.name or 'value'}:{_zsh_values(option)}" if option.takes_value else ""
        for flag in option.flags:
            yield _quoted(f"{excluded}{flag}[{text}]{value}")
    for each in command.values[:1]:  # of more than one rest zsh makes an error, and all of ours take the same
        yield _quoted(f"*:{each.name or 'value'}:{_zsh_values(each)}")


def _zsh_values(argument: _Argument) -> str:
    if argument.takes_folder:
        return "_files -/"
    return "_files" if argument.words is None else f"({' '.join(argument.words)})"


def _fish(commands: list[_Command]) -> Iterator[str]:
    yield "# Completes fxgraph in fish."
    yield "complete -c fxgraph -n __fish_use_subcommand -f"
    yield "complete -c fxgraph -n __fish_use_subcommand -l help -s h -d 'show this help'"
    yield "complete -c fxgraph -n __fish_use_subcommand -l version -d 'print the version'"
    for command in commands:
        yield f"complete -c fxgraph -n __fish_use_subcommand -f -a {command.name} -d {_fish_quoted(command.help)}"
        begin = f"complete -c fxgraph -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
            yield f"{begin} {flags}{_fish_value(option)} -d {_fish_quoted(option.help)}"
        for value in command.values:
            if value.words is not None:
                yield f"{begin} -f -a '{' '.join(value.words)}'"


def _fish_value(option: _Argument) -> str:
    if not option.takes_value:
        return ""
    if option.takes_folder:
        return " -x -a '(__fish_complete_directories)'"
    return " -r -F" if option.words is None else f" -x -a '{' '.join(option.words)}'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[list[_Command]], Iterator[str]]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
