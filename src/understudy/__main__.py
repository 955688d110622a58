"""`python -m understudy` is `understudy`."""

from .surfaces.cli.main import main

main()
