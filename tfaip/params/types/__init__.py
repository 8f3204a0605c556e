"""Types of fields: of our own, and how declared types are classified."""
