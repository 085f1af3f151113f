# Runs within this process forget the modules that they import, and the parser of YAML does not stand a second import.
import pytest_fxgraph.document.decoding  # noqa: F401
from fixtures.replays import git_folder, new_git_folder, recording_of, relu, sigmoid, sigmoid_and_two

__all__ = ["git_folder", "new_git_folder", "recording_of", "relu", "sigmoid", "sigmoid_and_two"]
