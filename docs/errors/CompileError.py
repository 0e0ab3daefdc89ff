import diffkern as dk


# wrong
@dk.kernel(deterministic=True)
def deposit(place: dk.array(dtype=int), value: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, place[i], value[i])


dk.compile(deposit, target="sm_90")


# instead
@dk.kernel(deterministic=True)
def deposit(place: dk.array(dtype=int), value: dk.array(dtype=float), total: dk.array(dtype=float)):
    k = dk.tid()  # a thread for each total, which adds in order
    for i in range(place.shape[0]):
        if place[i] == k:
            total[k] += value[i]


dk.compile(deposit, target="sm_90")
