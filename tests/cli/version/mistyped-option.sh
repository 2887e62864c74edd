quench version --quiett
