"""The fixture `fx_transform`: run a pass and check its result."""
