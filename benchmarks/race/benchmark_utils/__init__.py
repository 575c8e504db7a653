"""What the files of the race share; benchopt makes this folder importable under this name too."""
