"""Callers of components: one module a kind, and the only place that names its methods.

A caller passes on what the scheduler knows, checks the answer, and says what a fault of the
component means: it belongs to a request, makes the step fall back, ends the run, or disables
an observer (see ``guard``).
"""
