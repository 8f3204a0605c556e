"""The command line of params trees: parser, config files, help, completion."""
