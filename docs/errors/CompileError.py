import diffkern as dk


# wrong
@dk.kernel(deterministic=True)
def positive(value: dk.array(dtype=float), count: dk.array(dtype=int), found: dk.array(dtype=int)):
    i = dk.tid()
    if value[i] > 0.0:
        found[dk.atomic_add(count, 0, 1)] = i


dk.compile(positive, target="sm_90")


# instead
@dk.kernel(deterministic=True)
def positive(value: dk.array(dtype=float), place: dk.array(dtype=int), found: dk.array(dtype=int)):
    i = dk.tid()
    if value[i] > 0.0:
        found[place[i]] = i  # place: how many values before it are positive, from dk.utils.array_scan


dk.compile(positive, target="sm_90")
