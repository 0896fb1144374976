"""Step controls. None ships yet: a step is capped by its token budget alone."""
