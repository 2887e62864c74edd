quench version here
