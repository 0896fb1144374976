"""Building blocks of kernels that numba compiles for a CPU.

Not a kind of plugin: several kinds have such kernels. Nothing here is imported before
one of them is used, and everything works without numba.
"""
