"""Charts, declared once: the page draws them, and files hold them as SVG, PNG or PDF."""
