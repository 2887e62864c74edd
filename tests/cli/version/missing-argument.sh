quench version --log-level
