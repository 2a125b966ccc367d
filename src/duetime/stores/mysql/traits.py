"""What MySQL and its family can do."""

from duetime.stores.traits import Traits

TRAITS = Traits(engine="MySQL", nodes="many", passes_news=False)
