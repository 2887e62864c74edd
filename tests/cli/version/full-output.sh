quench version > /dev/full
