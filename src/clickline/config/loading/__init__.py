"""From YAML text to typed settings: lines, origins, overrides, and messages with suggestions."""
