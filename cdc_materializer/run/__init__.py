"""`cdcm run`: every table brought up to the ends of its topics, once or on and on."""
