quench edit --help
