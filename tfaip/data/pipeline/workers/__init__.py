"""Worker processes: blocks in parallel, back in order, with the same bytes as inline."""
