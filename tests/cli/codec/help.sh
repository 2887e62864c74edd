quench codec --help
