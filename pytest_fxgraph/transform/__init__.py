"""The fixture `fx_transform`: run a pass and check what it did."""
