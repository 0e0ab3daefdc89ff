import torch

import diffkern as dk


@dk.kernel
def energy(x: dk.array[float], k: float, total: dk.array[float]):
    i = dk.tid()
    stretch = x[i + 1] - x[i] - 1.0
    total[0] += 0.5 * k * stretch * stretch


springs = dk.torch_function(energy, launch_dims=3, output_dims=1)

x = torch.tensor([0, 1, 3, 3.5], requires_grad=True)
total = springs(x, 2.0)
total.sum().backward()
print(total.detach().numpy(), x.grad.numpy())
