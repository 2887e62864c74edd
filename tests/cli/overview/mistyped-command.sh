quench versoin
