"""Finding needs by address, against looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diffkern.runtime.needs import Need, Needs

RANGES = st.tuples(st.integers(0, 5000), st.integers(1, 3000)).map(lambda r: (r[0], r[0] + r[1]))


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=80), st.sampled_from([100, 8000, 10**6]))
def test_a_write_ends_the_needs_it_overlaps(actions, nbytes):
    needs, plain = Needs(nbytes), []
    for writes, (low, high) in actions:
        if writes:
            expected = {id(need) for need in plain if need.low < high and low < need.high}
            taken = needs.take(low, high)
            assert len(taken) == len(expected)
            assert {id(need) for need in taken} == expected
            plain = [need for need in plain if id(need) not in expected]
        else:
            need = Need(None, 0, low, high)
            needs.add(need)
            plain.append(need)
        assert {id(need) for need in needs} == {id(need) for need in plain}
