"""A model of launches on many processors, measured on the processors that there are."""
