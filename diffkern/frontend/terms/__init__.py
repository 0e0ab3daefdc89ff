"""Values while a kernel is lowered: terms, conversions, arithmetic, views."""
