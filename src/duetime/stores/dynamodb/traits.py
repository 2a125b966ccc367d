"""What DynamoDB can do."""

from duetime.stores.traits import Traits

TRAITS = Traits(
    engine="DynamoDB",
    nodes="many",
    passes_news=False,
    filtering="reading",
    sorts_by_time=False,
    counts=False,
    skips=10_000,
    drops_by_itself=True,  # where there is a retention; a store without one says otherwise
    num_shards=16,
)
