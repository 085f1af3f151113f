"""Names of collectives: one word for each, whatever torch's operators and functions call them."""

from __future__ import annotations

# The beginnings of names of torch's operators and functions, without underscores, by the collective that they are.
_KINDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "gather": "gather",
    "scatter": "scatter",
    "reduce": "reduce",
    "barrier": "barrier",
    "monitoredbarrier": "barrier",
    "send": "send",
    "isend": "send",
    "recv": "recv",
    "irecv": "recv",
    "batchp2pops": "batch_p2p",
}


def collective_kind(name: str) -> str:
    """Return the word for a collective by the last name of its operator or function; the name if it is unknown."""
    plain = name.replace("_", "").lower()
    return next((kind for beginning, kind in _KINDS.items() if plain.startswith(beginning)), name)
