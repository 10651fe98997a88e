"""Coverage-guided fuzzing of everything that reads files."""
