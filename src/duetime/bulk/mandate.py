"""A mandate: whoever asked for an action by a key that was revoked since has none any more."""

from msgspec.structs import replace

from duetime.bulk.action import Action
from duetime.clock import Millis
from duetime.tenancy.rules import Rules


async def has_ended(action: Action, rules: Rules, now: Millis) -> bool:
    """Tell whether an action must not go on, because its key was revoked.

    One that has expired, or was rotated, asked for it while it was good; that may have been dropped
    since. What a group waits for is done to its end, whoever asked.
    """
    key = action.actor.key
    if key is None or action.is_of_group or _is_there(key, rules):
        return False
    await rules.look(anew=True)  # another node may have made the key just now
    if rules.keys.find(key) is None:
        return action.key_ends_at is None or now < action.key_ends_at
    return not _is_there(key, rules)


def noted(action: Action, rules: Rules) -> Action:
    """The action with when its key ends, as long as that is known; to rotate it changes that."""
    key = None if action.actor.key is None else rules.keys.find(action.actor.key)
    if key is None or key.expires_at == action.key_ends_at:
        return action
    return replace(action, key_ends_at=key.expires_at)


def _is_there(key: str, rules: Rules) -> bool:
    found = rules.keys.find(key)
    return found is not None and found.revoked_at is None
