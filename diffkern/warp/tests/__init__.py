"""``wp.tests``: the part of Warp's tests that tests of other packages use."""
