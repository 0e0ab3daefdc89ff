"""The operation table: one row per operation, with every fact about it (``row``), and the table (``table``)."""
