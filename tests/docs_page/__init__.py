"""The page at /docs: what it is tried with, and the signing of its policy."""
