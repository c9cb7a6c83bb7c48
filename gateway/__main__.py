"""`python -m gateway` is `warmgate`."""

from gateway.cli import main

if __name__ == "__main__":
    main()
