"""A run as one HTML page that needs no network, no script and no font of its own. Pure functions from a Report."""
