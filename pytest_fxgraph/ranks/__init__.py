"""One program on many ranks as one subject: captured rank by rank, grouped, and its collectives matched."""
