"""A mandate: whoever asked for an action by a key that was revoked since has none any more."""

from duetime.bulk.action import Action
from duetime.tenancy.rules import Rules


async def has_ended(action: Action, rules: Rules) -> bool:
    """Tell whether an action must not go on, because its key was revoked.

    One that has expired, or was rotated, asked for it while it was good. What a group waits for is
    done to its end, whoever asked.
    """
    key = action.actor.key
    if key is None or action.is_of_group or _is_there(key, rules):
        return False
    await rules.look(anew=True)  # another node may have made the key just now
    return not _is_there(key, rules)


def _is_there(key: str, rules: Rules) -> bool:
    found = rules.keys.find(key)
    return found is not None and found.revoked_at is None
