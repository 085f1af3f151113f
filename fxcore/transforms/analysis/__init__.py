"""Analyses of graphs: costs, memory, time, the roofline, the critical path. No analysis changes the graph."""
