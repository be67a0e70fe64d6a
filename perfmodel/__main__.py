"""``python -m perfmodel`` is the ``perfmodel`` command."""

from perfmodel.cli import main

if __name__ == "__main__":
    main()
