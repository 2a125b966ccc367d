"""ETag and If-Match: nobody overwrites what they have not seen."""

import pytest

from tests.api.client import Api, timer_body

CHANGES = [
    ("PUT", "", {}),
    ("DELETE", "", None),
    ("POST", "/fire", None),
    ("POST", "/pause", None),
]


@pytest.mark.promise("nothing-unseen")
@pytest.mark.parametrize(("method", "action", "body"), CHANGES)
async def test_stale(api: Api, method: str, action: str, body):
    """A change that names an older version is 412, code 6, and changes nothing."""
    made = await api.create()
    await api.put(f"/timers/{made['id']}", {"name": "changed"})
    before = await api.shown(made["id"])
    answer = await api.call(
        method, f"/timers/{made['id']}{action}", body, headers={"If-Match": '"1"'}
    )
    assert answer.summary == (412, 6, "version is 2, not 1")
    assert answer.data is None
    assert await api.shown(made["id"]) == before


@pytest.mark.promise("nothing-unseen")
@pytest.mark.parametrize(("method", "action", "body"), CHANGES)
@pytest.mark.parametrize("given", ['"1"', "1", 'W/"1"', "*", "001"])
async def test_newest(quick_api: Api, method: str, action: str, body, given: str):
    """A change that names the newest version goes through, and answers with the next one."""
    made = await quick_api.create()
    answer = await quick_api.call(
        method, f"/timers/{made['id']}{action}", body, headers={"If-Match": given}
    )
    assert answer.status == 200
    assert answer.headers["etag"] == '"2"'


async def test_resume(api: Api):
    """Resuming obeys If-Match as well."""
    paused = await api.bring_to("paused")
    path = f"/timers/{paused['id']}/resume"
    assert (await api.post(path, If_Match='"1"')).status == 412
    assert (await api.post(path, If_Match='"2"')).headers["etag"] == '"3"'


async def test_redrive(api: Api):
    """Redriving obeys If-Match as well."""
    failed = await api.bring_to("failed")
    path = f"/timers/{failed['id']}/redrive"
    assert (await api.post(path, If_Match='"2"')).status == 412
    assert (await api.post(path, If_Match='"3"')).headers["etag"] == '"4"'


@pytest.mark.promise("nothing-unseen")
async def test_by_key(api: Api):
    """PUT and DELETE by key obey If-Match; a timer that is not there yet has no version."""
    path = "/groups/default/timers/x"
    missing = await api.put(path, timer_body(), If_Match='"1"')
    assert missing.summary == (412, 6, "there is no such timer yet")
    assert (await api.put(path, timer_body())).headers["etag"] == '"1"'
    assert (await api.put(path, timer_body(name="b"), If_Match='"1"')).headers["etag"] == '"2"'
    assert (await api.put(path, timer_body(name="c"), If_Match='"1"')).status == 412
    assert (await api.delete(path, If_Match='"1"')).status == 412
    assert (await api.delete(path, If_Match='"2"')).headers["etag"] == '"3"'


@pytest.mark.promise("nothing-unseen")
async def test_precondition_before_status(api: Api):
    """Who names a stale version is told that first, whatever the status is by now."""
    made = await api.bring_to("completed")
    answer = await api.delete(f"/timers/{made['id']}", If_Match='"1"')
    assert answer.summary == (412, 6, "version is 3, not 1")


@pytest.mark.parametrize("given", ["", "abc", '"abc"', "-1", '"1", "2"', "1.0", "1" * 19, "\u0663"])
async def test_bad_if_match(quick_api: Api, given: str):
    """What is no ETag of a timer is 400, naming the header."""
    made = await quick_api.create()
    answer = await quick_api.delete(f"/timers/{made['id']}", If_Match=given)
    assert answer.summary == (400, 2, 'If-Match: must be an ETag of this timer such as "3"')


async def test_version_is_shown(api: Api):
    """The ETag of every answer is the version that is shown."""
    made = await api.create()
    answer = await api.get(f"/timers/{made['id']}")
    assert (answer.data["version"], answer.headers["etag"]) == (1, '"1"')
    await api.claim(made["id"])
    answer = await api.get(f"/timers/{made['id']}")
    assert (answer.data["version"], answer.headers["etag"]) == (2, '"2"')
