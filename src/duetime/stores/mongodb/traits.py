"""What MongoDB can do."""

from duetime.stores.traits import Traits

TRAITS = Traits(engine="MongoDB", nodes="many", passes_news=True)
