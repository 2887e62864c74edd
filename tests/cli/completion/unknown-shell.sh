quench completion tcsh
