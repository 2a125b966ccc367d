"""The benchmark: what Duetime does on this machine, beside what the machine could do at all."""
