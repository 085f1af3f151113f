"""Pictures of reports for the docs, made in a browser of a run whose tests fail in known ways."""
