quench --help
