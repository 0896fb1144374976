"""The command line: the command group, and a thin shell for each command."""
