"""Code that several commands share: entry point, flags, stored params, models, results."""
