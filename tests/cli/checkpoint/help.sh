quench checkpoint --help
