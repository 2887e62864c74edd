quench inspect
