"""``python -m cdc_materializer``: the same as the command ``cdcm``."""

import sys

from cdc_materializer.cli import main

if __name__ == "__main__":
    sys.exit(main())
