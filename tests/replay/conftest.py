from fixtures.replays import git_folder, new_git_folder, recording_of, relu, sigmoid, sigmoid_and_two

__all__ = ["git_folder", "new_git_folder", "recording_of", "relu", "sigmoid", "sigmoid_and_two"]
