"""How fast is it?

`python -m benchmarks` measures fxcore against torch.fx, `python -m benchmarks.plugin` the plugin against other tools.
"""
