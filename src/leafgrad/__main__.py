"""The command `python -m leafgrad`."""

from leafgrad._debug.script import main

main()
