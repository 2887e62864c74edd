quench version --quiet=yes
