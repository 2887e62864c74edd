quench export --help
