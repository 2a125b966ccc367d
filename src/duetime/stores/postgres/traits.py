"""What PostgreSQL can do."""

from duetime.stores.traits import Traits

TRAITS = Traits(engine="PostgreSQL", nodes="many", passes_news=True)
