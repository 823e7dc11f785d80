#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Derives the tanh and log polynomials of canonical.h: a Remez exchange in 60-digit decimals.

Each polynomial minimises the largest relative error of the function on its interval.  The
coefficients are then rounded to binary32 one at a time, the most significant first, and the rest is
fitted again after each rounding.  Prints the coefficients, highest power first, and the error."""
from decimal import Decimal, getcontext
import math
import struct

getcontext().prec = 60
ONE = Decimal(1)


def f32(value):
    """Nearest binary32 of a Decimal, as a float."""
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def power(t, p):
    """t ** p with 0 ** 0 = 1, which decimals refuse."""
    return ONE if p == 0 else t ** p


def solve(matrix, right):
    """Solves a square system by elimination with pivoting."""
    n = len(matrix)
    rows = [list(matrix[i]) + [right[i]] for i in range(n)]
    for c in range(n):
        pivot = max(range(c, n), key=lambda r: abs(rows[r][c]))
        rows[c], rows[pivot] = rows[pivot], rows[c]
        for r in range(n):
            if r != c and rows[r][c] != 0:
                factor = rows[r][c] / rows[c][c]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[c])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def remez(target, weight, low, high, powers):
    """Coefficients of sum c_p t^p, p in powers, least in max |weight * (sum - target)|."""
    count = len(powers) + 1
    nodes = [(low + high) / 2 + (high - low) / 2 *
             Decimal(math.cos(math.pi * (2 * i + 1) / (2 * count))) for i in range(count)]
    grid = [low + (high - low) * i / 600 for i in range(601)]
    samples = [(t, target(t), weight(t)) for t in grid if weight(t) != 0]
    coefficients = []
    for _ in range(12):
        matrix, right = [], []
        for i, t in enumerate(nodes):
            w = weight(t)
            matrix.append([w * power(t, p) for p in powers] + [ONE if i % 2 else -ONE])
            right.append(w * target(t))
        coefficients = solve(matrix, right)[:-1]
        errors = [(t, w * (sum(c * power(t, p) for c, p in zip(coefficients, powers)) - g))
                  for t, g, w in samples]
        runs = []
        for t, e in errors:
            if runs and (runs[-1][1] > 0) == (e > 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (t, e)
            else:
                runs.append((t, e))
        while len(runs) > count:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        if len(runs) < count:
            break
        nodes = [t for t, _ in runs]
    return coefficients


def fit(name, target, weight, low, high, degree):
    fixed, free = {}, list(range(degree + 1))
    while free:
        def rest(t):
            return target(t) - sum(Decimal(c) * power(t, p) for p, c in fixed.items())
        coefficients = remez(rest, weight, low, high, free)
        fixed[free[0]] = f32(coefficients[0])
        free = free[1:]
    worst = max(abs(weight(t) * (sum(Decimal(c) * power(t, p) for p, c in fixed.items()) - target(t)))
                for t in (low + (high - low) * i / 2000 for i in range(2001)))
    text = ", ".join(("-" if c < 0 else "") + short_hex(abs(c)) for c in
                     (fixed[p] for p in range(degree, -1, -1)))
    print(f"{name}: {{{text}}}, relative error {float(worst):.2e}")


def short_hex(value):
    """0x1.abcdefp-3: a C hexadecimal literal without trailing zeros."""
    mantissa, exponent = value.hex().split("p")
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent.lstrip("+") + "f"


def tanh_over(z):
    """tanh(x) / x for z = x * x."""
    if z < Decimal("1e-12"):
        return ONE - z / 3 + 2 * z * z / 15
    x = z.sqrt()
    e = (2 * x).exp()
    return (e - 1) / (e + 1) / x


def log_over(f):
    """log(1 + f) / f."""
    if abs(f) < Decimal("1e-12"):
        return ONE - f / 2 + f * f / 3 - f * f * f / 4
    return (ONE + f).ln() / f


# tanh(x) = x + x * z * P(z), z = x * x, |x| < 0.625
fit("tanh", lambda z: (tanh_over(z) - 1) / z if z > Decimal("1e-9") else
    -ONE / 3 + 2 * z / 15, lambda z: z / tanh_over(z), Decimal(0), Decimal("0.390625"), 4)
# log(1 + f) = f + f * f * (f * P(f) - 1/2), sqrt(1/2) - 1 <= f < sqrt(2) - 1
fit("log", lambda f: ((log_over(f) - 1) / f + ONE / 2) / f if abs(f) > Decimal("1e-9") else
    ONE / 3 - f / 4, lambda f: f * f / log_over(f),
    Decimal("0.5").sqrt() - 1, Decimal(2).sqrt() - 1, 8)
