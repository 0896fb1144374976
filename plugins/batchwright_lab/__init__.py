"""The lab: simulations, workloads, step times, comparisons, replays and pictures of runs."""
