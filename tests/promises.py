"""What Duetime promises, sentence by sentence, under the names that tests carry as marks.

The first five are the README's, word for word; the others are made in docs/. Which tests hold each
of them: ``make promises``.
"""

PROMISES = {
    "never-lost": "An acknowledged timer is never lost, and is delivered at least once.",
    "never-early": "It never fires early, by the clock of the node that fires it.",
    "cancel-holds": "Once a cancel, pause or update is acknowledged, the old version never starts.",
    "one-node-per-attempt": (
        "Each attempt is claimed by exactly one node. A second delivery comes only from a node "
        "that died, was stopped, or stalled past its claim in mid-delivery, and it carries the "
        "same `webhook-id` with a higher attempt number, so that the receiver can tell."
    ),
    "only-itself": "A receiver that hangs delays only itself.",
    "own-number": "No two deliveries of an occurrence have the same attempt number.",
    "stalled-sends-nothing": "A node that was paused past its claim sends nothing.",
    "clocks-may-differ": (
        "Nodes whose clocks differ by less than a third of CLAIM_TTL make no second delivery."
    ),
    "late-fires": "A late timer always fires, unless a deadline of its own has passed.",
    "failing-store": (
        "A store that fails loses nothing: 503 says that nothing was written, and 500 that nobody "
        "knows."
    ),
    "bounded-memory": (
        "Memory is bounded in number and in bytes: what does not fit stays a row, or is refused."
    ),
    "changes-pass": "Changes get through while creates are refused.",
    "dead-inherited": (
        "When a node is found dead, the others take up what it left executing at once, and never "
        "before."
    ),
    "clean-stop": (
        "A node that is stopped finishes what is under way, makes no timer late, and exits with 0."
    ),
    "one-timer-per-key": "A create that is repeated under its key makes one timer.",
    "nothing-unseen": "Nobody overwrites what they have not seen.",
    "permitted-addresses": "Callbacks reach permitted addresses only.",
    "signatures-fit": (
        "Every active secret signs the id, the time and the very bytes that the receiver gets."
    ),
    "bad-input": "Bad input gets an error that names the field, and changes nothing.",
    "no-secret": "No secret is logged, or repeated in a message.",
    "tenants-apart": (
        "Tenants never see one another: what is another's is answered like what does not exist."
    ),
    "roles-hold": "A key opens what its role, its groups and its expiry let it, and nothing else.",
    "limits-hold": "Limits of callbacks hold in the whole cluster, within the error documented.",
    "tenants-in-turn": "A tenant with very many timers due does not delay another's.",
    "quotas-hold": "A quota holds in the whole cluster, within the error that is documented.",
    "group-pause-holds": (
        "Once the pause of a group is acknowledged, nothing of it starts until it is resumed."
    ),
    "target-pause-holds": (
        "Once the pause of a target is acknowledged, nothing is sent to it until it ends."
    ),
    "waiting-costs-nothing": (
        "Timers whose target is paused or keeps failing wait without using attempts."
    ),
    "bulk-counts": (
        "A bulk action changes each timer that it means once, and counts right, whatever crashes."
    ),
    "audited": "Whoever was told that a change is done finds who did it in the audit.",
    "whole-copy": "A copy is whole, or says what is missing.",
    "events-complete": (
        "With the outbox on, every change of a timer has its event, written with it: in order, and "
        "without a gap in the versions."
    ),
    "events-heard": (
        "Whoever listens to events hears of all changes that they may hear of, whichever node made "
        "them: in order for each timer, also after a break."
    ),
    "events-arrive": (
        "Every event is published at least once, by one node at a time, in order for each timer, "
        "and a repeat has the same message id; whatever crashes."
    ),
    "one-contract": "Every store obeys one contract.",
}
