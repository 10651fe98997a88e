"""The ``clusterica`` command, also as ``python -m clusterica``."""


def main() -> None:
    """Run the command; Ctrl-C while the modules of the command are imported ends it without a traceback."""
    try:
        from clusterica.cli import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
