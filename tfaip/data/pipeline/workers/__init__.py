"""Worker processes: blocks of samples are computed in parallel and come back in order, the same bytes as inline."""
