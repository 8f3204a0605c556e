"""Runner of the stages of a run: one after the other, with what each takes over from the one before."""
