"""In place of other systems, and of parts of ours: they say what they were asked, and answer what a test wants."""
