quench inspect --help
