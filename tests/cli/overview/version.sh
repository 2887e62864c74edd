quench --version
