"""What kernels that numba compiles for a CPU are made of.

Not a kind of plugin: several kinds have such kernels. Nothing here is imported before
one of them is used, and everything works without numba.
"""
