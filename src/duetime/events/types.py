"""The types of events: what can be told of a timer, and what each says."""

from collections.abc import Mapping

TYPES: Mapping[str, str] = {
    "created": "It is there.",
    "updated": "It was updated, shifted, replaced or fired by hand: `change` says which.",
    "paused": "It waits until it is resumed.",
    "resumed": "It goes on.",
    "canceled": "It never starts.",
    "due": "Its time has come: the first attempt of an occurrence begins.",
    "attempt_started": "An attempt begins.",
    "attempt_failed": "An attempt has failed, or was lost with its node.",
    "completed": "It was delivered.",
    "failed": "It has failed for good.",
    "redriven": "It is tried again after it had failed for good.",
    "rescheduled": "Its receiver asked to be called again.",
    "held": "It is due, and sleeps because its group is paused.",
    "released": "It was held, and is no more.",
    "handed_back": "An attempt was not begun after all: nothing was sent, and its number is free.",
    "renewed": "An attempt is still under way.",
    "told": "That it has failed was told to whom it names, or cannot be.",
}
