"""`python -m understudy` is `understudy`."""

from .surfaces.cli.entry import main

main()
