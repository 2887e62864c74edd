quench version --log-lev=info
