quench
