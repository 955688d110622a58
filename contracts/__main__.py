"""`python -m understudy.contracts [--write]`: compare the pins, or write them after an edit."""

import sys

from .registry.pins import main

sys.exit(main(sys.argv[1:]))
