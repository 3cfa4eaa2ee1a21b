"""`python -m clickline`, where the command itself is not on the path."""

from clickline.cli import main

main()
