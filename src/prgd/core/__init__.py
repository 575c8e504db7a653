"""The ground: types, checks, errors, exact rounding, files and threads; every room rests on it."""
