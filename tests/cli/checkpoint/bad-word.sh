quench checkpoint look .
