"""The docs: every link leads to a file that is there, and to a heading that it has."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
LINK = re.compile(r"\]\((?!\w+://)([^)\s#]*)(?:#([^)\s]+))?\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What the headings of a page are called in links to them."""
    headings = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in plain)


def test_links_lead_somewhere():
    """Within a page, and from one to another."""
    astray = [
        (page.name, path, anchor)
        for page in PAGES
        for path, anchor in LINK.findall(FENCE.sub("", page.read_text()))
        if not is_there(page.parent / path if path else page, anchor)
    ]
    assert astray == []


def is_there(page: Path, anchor: str) -> bool:
    return page.exists() and (not anchor or anchor in anchors(page))
