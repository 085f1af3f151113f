"""Replay: two recordings of one suite, compared test by test and graph by graph. Imports neither torch nor pytest."""
