quench version --log-level=loud
