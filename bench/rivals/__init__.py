"""The rivals: other programs that do the same work, measured in the same run as Duetime.

Each has a folder with two scripts for Node.js, one that produces jobs by the rival's own client and
one that works them off. A job is one POST to the sink, as a timer's callback is.
"""
