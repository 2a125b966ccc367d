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
    drops_by_itself=True,
    num_shards=16,
)
