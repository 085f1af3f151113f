"""Analyses of graphs: costs, memory, time, the roofline, the critical path. None changes the graph."""
