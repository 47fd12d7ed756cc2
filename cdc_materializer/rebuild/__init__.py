"""`cdcm replay`: a mirror rebuilt from raw beside the live one, compared with it, and swapped in if asked for."""
