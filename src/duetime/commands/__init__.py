"""Commands: the use cases over NATS, with the bodies, envelope and checks of the HTTP API."""
