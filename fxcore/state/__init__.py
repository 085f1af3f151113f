"""State of models, inputs and the process at one time: a snapshot names each later change, and restores the state."""
