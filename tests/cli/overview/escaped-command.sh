quench "$(printf "\033[31mred")"
