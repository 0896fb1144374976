"""Comparing policies: a grid of simulations, what came of each, and a report."""
