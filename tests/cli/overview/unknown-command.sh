quench frobnicate
