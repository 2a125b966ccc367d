"""Renews the hashes in the page's Content-Security-Policy: python -m tests.docs_page.sign."""

import base64
import hashlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "src" / "duetime" / "api" / "docs.html"


def signed(page: str) -> str:
    """The page with a policy that names its style and its script, and nothing else."""
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        found = re.search(rf"<{tag}[^>]*>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        page = re.sub(rf"{directive} '[^']*'", f"{directive} 'sha256-{digest}'", page, count=1)
    return page


if __name__ == "__main__":
    PAGE.write_text(signed(PAGE.read_text("utf-8")), "utf-8")
