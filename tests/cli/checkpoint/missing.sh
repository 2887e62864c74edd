# No folder is something else than a folder without a save.
quench checkpoint verify none || echo "status $?" >&2
mkdir empty && quench checkpoint verify empty || echo "status $?" >&2
