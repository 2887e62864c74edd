quench verify
