"""Arrays: their construction, conversion, views, copies and exchange with other libraries."""
