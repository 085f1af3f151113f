"""GraphModules as pickles, and as folders of source."""
