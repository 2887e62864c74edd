# What the machine can run differs; the table of types does not.
quench version | sed '/^instruction sets:/d'
