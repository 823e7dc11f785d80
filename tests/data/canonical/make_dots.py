#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes dots.tsv: the bits of the canonical dot of every golden row, by a model of docs/numerics.md
that shares nothing with the C code.  With --check, compares instead; exit status 1 if they differ.

A product or sum of two f32 values that is rounded from double to f32 is rounded correctly; fused
multiply-adds go through exact fractions."""
import ctypes
import json
import os
import struct
import sys
from fractions import Fraction

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(HERE, '..', 'vectors')
TABLES = os.path.join(HERE, '..', '..', '..', 'core', 'formats', 'tables')


def R(x):
    return ctypes.c_float(x).value


def fma(a, b, c):
    """a * b + c with one rounding to f32."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # no rounding: the sign of the zero is IEEE's
    size = abs(exact)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= size < Fraction(2) ** e  # 2^e <= size < 2^(e+1)
    ulp = Fraction(2) ** (max(e, -126) - 23)
    value = float(round(size / ulp) * ulp)  # round() of a Fraction is half to even
    return -value if exact < 0 else value


def csv(name):
    with open(os.path.join(TABLES, name + '.csv')) as f:
        return [[int(c, 0) for c in line.split(',')[1:]] for line in f.read().splitlines()[1:]]


def f32(bits):
    return struct.unpack('<f', struct.pack('<I', bits))[0]


def f16(b, o):
    return struct.unpack_from('<e', b, o)[0]


def u16(b, o):
    return struct.unpack_from('<H', b, o)[0]


def u32(b, o):
    return struct.unpack_from('<I', b, o)[0]


def i8(v):
    return v - 256 if v > 127 else v


def us(e):  # half e4m3 of seven bits
    return e * 2.0 ** -10 if e < 8 else (8 + e % 8) * 2.0 ** (e // 8 - 11)


def field(b, i, width):
    return int.from_bytes(b, 'little') >> i * width & (1 << width) - 1


def split(b, o):  # 32 nibbles
    return [v & 15 for v in b[o:o + 16]] + [v >> 4 for v in b[o:o + 16]]


NL = [r[0] for r in csv('kvalues_iq4nl')]
FP4 = [r[0] for r in csv('kvalues_fp4')]
ROC4 = [r[0] for r in csv('rocmfp4_codebook')]
SIGNS = [r[0] for r in csv('ksigns_iq2xs')]
GRIDS = {n: csv(n + '_grid') for n in ('iq2xxs', 'iq2xs', 'iq2s', 'iq3xxs', 'iq3s', 'iq1s')}
LEVELS = {n: [[f32(v) for v in r] for r in csv(n + '_grid')] for n in ('gqh3', 'gqh4', 'gqh2h')}
RATIO = [f32(r[0]) for r in csv('gqh_ratio')]
C_BOOK, C_SIGNS = csv('gqh2c_codebook'), [r[0] for r in csv('gqh2c_signs')]


# ---- integer-dot formats: a block gives a list of units ------------------------------------------------
# A unit is (integers, scale), or (integers, scale, integers, scale, sign) where the second product is added
# or subtracted.

ONES = [1] * 32


def six(b, j):  # scale, min of Q4_K and Q5_K
    a = b[4:16]
    if j < 4:
        return a[j] & 63, a[j + 4] & 63
    return a[j + 4] & 15 | a[j - 4] >> 6 << 4, a[j + 4] >> 4 | a[j] >> 6 << 4


def halves(levels, first, second):
    return [(levels[:16] + [0] * 16, first, [0] * 16 + levels[16:], second, 1)]


def q3_k(b):
    w = []
    for i in range(256):
        j = i // 16
        low, high = b[96 + j % 8] >> 4 * (j // 8) & 15, b[104 + j % 4] >> 2 * (j // 4) & 3
        q = b[32 + 32 * (i // 128) + i % 32] >> 2 * (i // 32 % 4) & 3
        w.append((low + 16 * high - 32) * (q + 4 * (b[i % 32] >> i // 32 & 1) - 4))
    return [(w, f16(b, 108))]


def q6_k(b):
    w = []
    for i in range(256):
        h, r = divmod(i, 128)
        q = (b[64 * h + r % 64] >> 4 * (r // 64) & 15) + 16 * (b[128 + 32 * h + r % 32] >> 2 * (r // 32) & 3)
        w.append(i8(b[192 + i // 16]) * (q - 32))
    return [(w, f16(b, 208))]


def q2_k(b):
    q = [b[16 + 32 * (i // 128) + i % 32] >> 2 * (i // 32 % 4) & 3 for i in range(256)]
    return [([(b[i // 16] & 15) * q[i] for i in range(256)], f16(b, 80), [b[i // 16] >> 4 for i in range(256)],
             f16(b, 82), -1)]


def q45_k(b, five):
    w, m = [], []
    for i in range(256):
        j = i // 32
        q = b[(48 if five else 16) + 32 * (j // 2) + i % 32] >> 4 * (j % 2) & 15
        q += 16 * (b[16 + i % 32] >> j & 1) if five else 0
        w.append(six(b, j)[0] * q)
        m.append(six(b, j)[1])
    return [(w, f16(b, 0), m, f16(b, 2), -1)]


def iq4_xs(b):
    w = []
    for g in range(8):
        scale = (b[4 + g // 2] >> 4 * (g % 2) & 15) + 16 * (u16(b, 2) >> 2 * g & 3) - 32
        w += [scale * NL[n] for n in split(b, 8 + 16 * g)]
    return [(w, f16(b, 0))]


def iq(name, b):
    w = []
    for k in range(32):
        g, l = divmod(k, 4)
        if name == 'iq2_xxs':
            v = u32(b, 6 + 8 * g)
            mags, mask, s = GRIDS['iq2xxs'][b[2 + 8 * g + l]], SIGNS[v >> 7 * l & 127], v >> 28
        elif name == 'iq2_xs':
            v = u16(b, 2 + 2 * k)
            mags, mask, s = GRIDS['iq2xs'][v % 512], SIGNS[v // 512], b[66 + g] >> 4 * (l // 2) & 15
        elif name == 'iq2_s':
            mags = GRIDS['iq2s'][b[2 + k] + 256 * (b[66 + g] >> 2 * l & 3)]
            mask, s = b[34 + k], b[74 + g] >> 4 * (l // 2) & 15
        elif name == 'iq3_xxs':
            v = u32(b, 66 + 4 * g)
            mags = GRIDS['iq3xxs'][b[2 + 2 * k]] + GRIDS['iq3xxs'][b[3 + 2 * k]]
            mask, s = SIGNS[v >> 7 * l & 127], v >> 28
        else:
            high = b[66 + g] >> 2 * l
            mags = GRIDS['iq3s'][b[2 + 2 * k] + 256 * (high & 1)] + GRIDS['iq3s'][b[3 + 2 * k] + 256 * (high >> 1 & 1)]
            mask, s = b[74 + k], b[106 + g // 2] >> 4 * (g % 2) & 15
        w += [(2 * s + 1) * (-v if mask >> e & 1 else v) for e, v in enumerate(mags)]
    return [(w, f16(b, 0))]


def iq1(name, b):  # integers in eighths
    w = []
    for k in range(32):
        g, l = divmod(k, 4)
        if name == 'iq1_s':
            v = u16(b, 34 + 2 * g)
            index, s, negative = b[2 + k] + 256 * (v >> 3 * l & 7), v >> 12 & 7, v >> 15
        else:
            n = b[32 + 2 * g + l // 2] >> 4 * (l % 2) & 15
            index, negative = b[k] + 256 * (n & 7), n >> 3
            s = u16(b, 48 + 2 * (g // 2)) >> 6 * (g % 2) + 3 * (l // 2) & 7
        w += [(2 * s + 1) * (8 * v + (-1 if negative else 1)) for v in GRIDS['iq1s'][index]]
    d = f16(b, 0) if name == 'iq1_s' else \
        f16(struct.pack('<H', sum(u16(b, 48 + 2 * t) >> 12 << 4 * t for t in range(4))), 0)
    return [(w, d)]


def q5(b, o):
    return [n + 16 * (u32(b, o) >> i & 1) for i, n in enumerate(split(b, o + 4))]


UNITS = {
    'q4_0': lambda b: [([n - 8 for n in split(b, 2)], f16(b, 0))],
    'q4_1': lambda b: [(split(b, 4), f16(b, 0), ONES, f16(b, 2), 1)],
    'q5_0': lambda b: [([n - 16 for n in q5(b, 2)], f16(b, 0))],
    'q5_1': lambda b: [(q5(b, 4), f16(b, 0), ONES, f16(b, 2), 1)],
    'q8_0': lambda b: [([i8(v) for v in b[2:]], f16(b, 0))],
    'iq4_nl': lambda b: [([NL[n] for n in split(b, 2)], f16(b, 0))],
    'mxfp4': lambda b: [([FP4[n] for n in split(b, 1)], 2.0 ** (b[0] - 128))],
    'nvfp4': lambda b: [u for h in (0, 1) for u in halves(
        [FP4[v >> s & 15] for t in (0, 8) for s in (0, 4) for v in b[4 + 16 * h + t:12 + 16 * h + t]],
        us(b[2 * h]), us(b[2 * h + 1]))],
    'q1_0': lambda b: [([2 * (u32(b, 2 + 4 * p) >> i & 1) - 1 for i in range(32)], f16(b, 0)) for p in range(4)],
    'q2_0': lambda b: [([field(b[2:], 32 * p + i, 2) - 1 for i in range(32)], f16(b, 0)) for p in range(2)],
    'q2_k': q2_k, 'q3_k': q3_k, 'q6_k': q6_k, 'iq4_xs': iq4_xs,
    'q4_k': lambda b: q45_k(b, False), 'q5_k': lambda b: q45_k(b, True),
    'rocmfp4': lambda b: halves([ROC4[n] for n in split(b, 0)], us(b[16]), us(b[17])),
    'rocmfp4_fast': lambda b: [([ROC4[n] for n in split(b, 0)], us(b[16]))],
    'rocmfp6': lambda b: halves([(-1 if c & 32 else 1) * (c & 31) for c in (field(b[:24], i, 6) for i in range(32))],
                                us(b[24]), us(b[25])),
    'rocmfp8': lambda b: [([i8(v) for v in b[:32]], us(b[32]))],
    'rocmfp3': lambda b: halves([(0, 1, 2, 4, 0, -1, -2, -4)[field(b[:12], i, 3)] for i in range(32)],
                                us(b[12]), us(b[13])),
    'rocmfp2': lambda b: halves([field(b[:8], i, 2) - 1 for i in range(32)],
                                *[us(e & 127) * (-1 if e > 127 else 1) for e in b[8:]]),
}
for _n in ('iq2_xxs', 'iq2_xs', 'iq2_s', 'iq3_xxs', 'iq3_s'):
    UNITS[_n] = lambda b, n=_n: iq(n, b)
for _n in ('iq1_s', 'iq1_m'):
    UNITS[_n] = lambda b, n=_n: iq1(n, b)
FINAL = {'iq2_xxs': .125, 'iq2_xs': .125, 'iq2_s': .125, 'iq3_xxs': .25, 'iq1_s': .125, 'iq1_m': .125}


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def term(unit, q, yd):
    value = R(R(unit[1] * yd) * R(dot(unit[0], q)))
    if len(unit) == 2:
        return value
    other = R(R(unit[3] * yd) * R(dot(unit[2], q)))
    return R(value + other if unit[4] > 0 else value - other)


# ---- f32-activation formats: block -> groups of (levels, scale), folded as (h, then acc) --------------

def mix(b, width, expert):
    book = [f32(v << 16) for v in expert['codebooks_bf16']]
    groups = []
    for h in (0, 1):
        meta = b[4 * width + h]
        codes = [field(b[:4 * width], 16 * h + i, width) for i in range(16)]
        if expert['mode'] == 0:
            fixed = (-1., 0., 1., 2.) if width == 2 else (0., 1., 2., 4., -0., -1., -2., -4.)
            groups.append(([fixed[c] for c in codes], us(meta)))
        else:
            groups.append(([book[(meta >> 7 << width) + c] for c in codes], us(meta & 127)))
    return groups


def e4m3(e):
    v = 2 * us(e & 127)
    return -v if e > 127 else v


def gqh(name, b, tensor):
    d, groups = R(e4m3(b[0]) * f32(int(tensor['tensor_scale_bits'], 16))), []
    for t in range(32):
        levels = []
        for i in range(8 * t, 8 * t + 8):
            if name == 'gqh4':
                levels.append(LEVELS['gqh4'][tensor['grid_code']][b[9 + i // 2] >> 4 * (i % 2) & 15])
            else:
                c = b[9 + i // 4] >> 2 * (i % 4) & 3
                c += 4 * (b[73 + i // 8] >> i % 8 & 1) if name == 'gqh3' else 0
                levels.append(LEVELS['gqh3' if name == 'gqh3' else 'gqh2h'][tensor['grid_code']][c])
        s = t // 2
        groups.append((levels, R(d * RATIO[b[1 + s // 2] >> 4 * (s % 2) & 15])))
    return groups


def gqh2_c(b):
    groups = []
    for t in range(32):
        o = 2 + 8 * (t // 4)
        u = u32(b, o + 4)
        mask = C_SIGNS[u >> 7 * (t % 4) & 127]
        levels = [v / 64 * (-1 if mask >> e & 1 else 1) for e, v in enumerate(C_BOOK[b[o + t % 4]])]
        groups.append((levels, R(f16(b, 0) * RATIO[u >> 28])))
    return groups


def canonical(name, blocks, q, yd, x, side):
    """q, yd: codes and scales of the activations in use; x: their f32 values."""
    acc = [0.0] * 32
    if name in UNITS:
        at = u = 0
        for b in blocks:
            for unit in UNITS[name](b):
                n = len(unit[0])
                acc[u % 32] = R(acc[u % 32] + term(unit, q[at:at + n], yd[u]))
                at, u = at + n, u + 1
    elif name in ('f32', 'f16', 'bf16'):
        for k, b in enumerate(blocks):
            w = {'f32': lambda: struct.unpack('<f', b)[0], 'f16': lambda: f16(b, 0), 'bf16': lambda: f32(u16(b, 0) << 16)}
            acc[k // 8 % 32] = fma(w[name](), x[k], acc[k // 8 % 32])
    else:
        at = 0
        for u, b in enumerate(blocks):
            groups = gqh2_c(b) if name == 'gqh2_c' else gqh(name, b, side) if name[:3] == 'gqh' else \
                mix(b, 3 if name == 'rocmfp3_mix' else 2, side)
            for t, (levels, scale) in enumerate(groups):
                a, h = t if len(groups) == 32 else u % 32, 0.0
                for level in levels:
                    h = fma(level, x[at], h)
                    at += 1
                acc[a] = fma(scale, h, acc[a])
    for s in (16, 8, 4, 2, 1):
        acc = [R(acc[l] + acc[l ^ s]) for l in range(32)]
    return R(acc[0] * FINAL.get(name, 1.0))


def main():
    with open(os.path.join(VECTORS, 'manifest.json')) as f:
        manifest = json.load(f)

    def array(record):
        with open(os.path.join(VECTORS, record['file']), 'rb') as data:
            data.seek(record['offset'])
            return data.read(record['bytes'])

    rows = manifest['activation_rows']
    raw = {e: array(r) for e, r in rows['encodings'].items()}
    starts = [sum(rows['k'][:i]) for i in range(len(rows['k']))]
    lines = ['# format, row of its rowdot section, bits of the canonical dot; written by make_dots.py\n']
    for name, entry in sorted(manifest['formats'].items()):
        section, low, at = entry['rowdot'], name.lower(), 0
        data = array(section['encoded'])
        for number, row in enumerate(section['rows']):
            k, start = rows['k'][row[0]], starts[row[0]]
            size = k // entry['block'] * entry['bytes']
            blocks = [data[o:o + entry['bytes']] for o in range(at, at + size, entry['bytes'])]
            at += size
            x = struct.unpack('<%df' % k, raw['F32'][4 * start:4 * (start + k)])
            q, yd = [], []
            if entry['block'] == 256:
                for o in range(start // 256 * 292, (start + k) // 256 * 292, 292):
                    yd.append(struct.unpack_from('<f', raw['Q8_K'], o)[0])
                    q += [i8(v) for v in raw['Q8_K'][o + 4:o + 260]]
            else:
                for o in range(start // 32 * 34, (start + k) // 32 * 34, 34):
                    yd.append(f16(raw['Q8_0'], o))
                    q += [i8(v) for v in raw['Q8_0'][o + 2:o + 34]]
            side = (entry.get('experts') or entry.get('tensors') or [None])[row[2] if len(row) > 2 else 0]
            y = canonical(low, blocks, q, yd, x, side)
            lines.append('%s\t%d\t%08x\n' % (low, number, struct.unpack('<I', struct.pack('<f', y))[0]))
    path = os.path.join(HERE, 'dots.tsv')
    if '--check' in sys.argv:
        with open(path) as f:
            same = f.read() == ''.join(lines)
        print('dots.tsv is what the model gives' if same else 'dots.tsv differs from the model')
        return not same
    with open(path, 'w') as f:
        f.writelines(lines)
    return 0


if __name__ == '__main__':
    sys.exit(main())
