"""The tables of the page on performance: one run of the scripts, one file of figures, one table for each device."""
