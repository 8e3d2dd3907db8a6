"""What all rooms use: the rules for secrets, output, colours."""

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of the package."""
