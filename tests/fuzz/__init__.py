"""Every file that a user hands in, mutated: no traceback, no hang, an error that says where."""
