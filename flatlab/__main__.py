"""`python -m flatlab` is the command `flatlab`."""

from flatlab.cli import main

raise SystemExit(main())
