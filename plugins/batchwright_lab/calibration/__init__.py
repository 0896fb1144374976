"""Step times measured on this machine, and coefficients fitted to them."""
