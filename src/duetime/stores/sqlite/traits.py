"""What SQLite can do."""

from duetime.stores.traits import Traits

TRAITS = Traits(engine="SQLite", nodes="one machine", passes_news=False)
