"""Running an algorithm: the loop, its stop rules, its history and its result."""
