"""The programs of sparse.rst take nothing for granted."""
