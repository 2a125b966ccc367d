"""``python -m duetime`` is the same as ``duetime``."""

import sys

from duetime.cli import main

sys.exit(main())
