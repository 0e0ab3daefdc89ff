"""Where to aim so that one ball of the rack ends in a given place: the gradient through collisions.

The input is a rack of balls and a target. The output is the velocity of the cue ball that sends the last ball of the
rack to the target, found with Adam, and a figure. A thread plays a whole game: time steps and pairs of balls are loops
in the kernel. Many games are played at once with different aims, because a collision that does not happen has no
gradient. Touching balls repel each other like springs; the cloth slows them down.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

RADIUS, STIFF, BRAKE, DT = 0.03, 4000.0, 0.3, 0.004
Points, History, Numbers = dk.array(dtype=dk.vec2), dk.array3d(dtype=dk.vec2), dk.array(dtype=float)


@dk.kernel
def play(rack: Points, aim: Points, goal: dk.vec2, x: History, v: History, loss: Numbers):
    """A game: `x` and `v` take places and velocities by game, time step, ball; ball 0 is the cue ball."""
    game = dk.tid()
    steps, balls = x.shape[1], x.shape[2]
    for b in range(balls):
        x[game, 0, b] = rack[b]
        v[game, 0, b] = aim[game] if b == 0 else dk.vec2(0.0, 0.0)
    for t in range(steps - 1):
        for b in range(balls):
            push = -BRAKE * v[game, t, b]
            for other in range(balls):
                if other != b:
                    apart = x[game, t, b] - x[game, t, other]
                    far = dk.length(apart)
                    if far < 2.0 * RADIUS:
                        push += STIFF * (2.0 * RADIUS - far) / far * apart
            moved = v[game, t, b] + DT * push
            v[game, t + 1, b] = moved
            x[game, t + 1, b] = x[game, t, b] + DT * moved
    off = x[game, steps - 1, balls - 1] - goal
    loss[game] = dk.dot(off, off)


def rack_of(rows: int) -> np.ndarray:
    """The cue ball, and the rack with its point towards it."""
    gap = 3.0 * RADIUS
    places = [(gap * np.sqrt(0.75) * r, gap * (c - r / 2)) for r in range(rows) for c in range(r + 1)]
    return np.float32([(-0.5, 0.0), *places])


def draw(path: str, goal: np.ndarray, games: list[tuple[str, np.ndarray]], history: np.ndarray) -> None:
    fig = Figure(figsize=(12.0, 3.6), layout="constrained")
    *axes, plot = fig.subplots(1, len(games) + 1)
    for ax, (title, x) in zip(axes, games, strict=True):
        for b in range(x.shape[1]):
            colour = "k" if b == 0 else "C3" if b == x.shape[1] - 1 else "C0"
            ax.plot(*x[:, b].T, colour, lw=0.8, alpha=0.6)
            ax.add_patch(Circle(x[-1, b], RADIUS, color=colour))
        ax.plot(*goal, "x", color="C2", ms=12, mew=3)
        ax.set(title=title, xlim=(-0.6, 1.1), ylim=(-0.8, 1.0), aspect="equal")
    plot.semilogy(np.sqrt(history), lw=0.5)
    plot.set(title="distance from the goal, each game", xlabel="rounds")
    fig.savefig(path, dpi=110)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Find the aim and draw; returns the least distance from the goal at first and in the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3, help="rows of the rack")
    parser.add_argument("--games", type=int, default=64, help="aims that are tried at once")
    parser.add_argument("--steps", type=int, default=400, help="time steps of a game")
    parser.add_argument("--rounds", type=int, default=100, help="steps of Adam")
    parser.add_argument("--out", default="billiards.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    rack, goal, games = rack_of(options.rows), np.float32([0.7, 0.75]), options.games
    shape = (games, options.steps, len(rack))
    close = np.float32([[0.0, 0.0], [0.05, 0.02], [0.1, 0.0]])
    room = [np.zeros((2, 12, 3, 2), np.float32) for _ in range(2)]
    few = [close, np.float32([[2.0, 0.1], [1.5, -0.2]]), dk.vec2(*goal)]
    print(gradcheck(play, 2, few, [*room, np.zeros(2, np.float32)]), flush=True)
    angle = np.linspace(-0.2, 0.2, games)
    aim = dk.array(
        np.float32(2.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)), dtype=dk.vec2, requires_grad=True
    )
    x, v = (dk.zeros(shape, dtype=dk.vec2, requires_grad=True) for _ in range(2))
    loss, ones = dk.zeros(games, requires_grad=True), dk.ones(games)
    optimizer, history, first = dk.optim.Adam([aim], lr=0.005), [], None
    for k in trange(options.rounds, desc="rounds"):
        optimizer.lr = 0.005 * (1.0 - k / options.rounds)
        with dk.Tape() as tape:
            dk.launch(play, games, inputs=[dk.array(rack, dtype=dk.vec2), aim, dk.vec2(*goal)], outputs=[x, v, loss])
        tape.backward(grads={loss: ones})
        history.append(loss.numpy().copy())
        first = x.numpy().copy() if first is None else first
        optimizer.step([aim.grad])
        tape.zero()
    errors = np.sqrt(np.array(history))
    best, start = int(errors[-1].argmin()), int(errors[0].argmin())
    shown = [("nearest of the first aims", first[start]), ("aim found", x.numpy()[best])]
    draw(options.out, goal, shown, np.array(history))
    print(
        f"{games} games of {len(rack)} balls, {options.steps} steps; the nearest ball ends {errors[0].min():.3f} off at"
    )
    print(f"first, {errors[-1].min():.1e} off in the end; figure: {options.out}")
    return float(errors[0].min()), float(errors[-1].min())


if __name__ == "__main__":
    main()
