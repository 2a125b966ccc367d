"""What Redis can do."""

from duetime.stores.traits import Traits
from duetime.stores.walking import MOST_SEEN

TRAITS = Traits(
    engine="Redis",
    nodes="many",
    passes_news=True,
    filtering="reading",
    sorts_by_time=False,
    counts=False,
    skips=MOST_SEEN,
)
