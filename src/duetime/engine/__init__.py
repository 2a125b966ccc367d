"""The engine: finds what is due, claims it, delivers it, and writes down what came of it."""
