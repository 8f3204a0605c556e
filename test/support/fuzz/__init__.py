"""Generated command lines, run in this process, and a watch on everything beside the run."""
