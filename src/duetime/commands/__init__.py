"""Commands: what is asked of timers over NATS, with the bodies, checks and answers of HTTP.

``answering`` answers requests; ``queue`` takes creates from a stream, durably. Both hand what they
hear to the ``desk``, which takes it through the gate of the API.
"""
