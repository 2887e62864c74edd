quench help version
