"""Trials of single decisions, run by hand; what they showed is on the pages of docs/stores."""
