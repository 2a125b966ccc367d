"""Several nodes on one database, under load, while things break: the kit and the tests."""
