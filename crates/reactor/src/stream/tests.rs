// Filled in the next change.
