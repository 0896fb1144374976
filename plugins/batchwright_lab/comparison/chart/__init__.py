"""Charts as SVG: text stays text, colours follow the page, no series is told by colour alone."""
