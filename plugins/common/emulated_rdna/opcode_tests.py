# SPDX-License-Identifier: MIT
"""One test an opcode: the body of a kernel that executes it, and a reference in Python.

A lane has the words a, b, c, d and the pairs A = b:a and C = d:c; sa .. sC are those of lane 0.
The body sets r0 and r1; a reference takes the four words of all 32 lanes and a lane, and returns
both.  For floats one NaN is as good as another, and sums are rounded once."""
import ctypes
import re
import struct

M32, M64 = 0xffffffff, 0xffffffffffffffff
LITERAL = 0x40490fdb
fmaf = ctypes.CDLL("libm.so.6").fmaf
fmaf.argtypes, fmaf.restype = [ctypes.c_float] * 3, ctypes.c_float


def number(bits):
    return struct.unpack("<f", struct.pack("<I", bits & M32))[0]


def bits_of(value):
    bits = struct.unpack("<I", ctypes.c_float(value))[0]
    return 0x7fc00000 if bits & 0x7fffffff > 0x7f800000 else bits


def single(value):
    return bits_of(ctypes.c_float(value).value)  # one rounding: the value is exact in a double


def fma(a, b, c):
    return bits_of(fmaf(number(a), number(b), number(c)))


def signed(value, width):
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def compare(name, kind, a, b):
    """What v_cmp_NAME_KIND says of two operands."""
    if kind == "F32":
        a, b = number(a), number(b)
        unordered = a != a or b != b
        return {"LT": a < b, "EQ": a == b, "LE": a <= b, "GT": a > b, "LG": a < b or a > b,
                "GE": a >= b, "O": not unordered, "U": unordered, "NGE": not a >= b,
                "NLG": not (a < b or a > b), "NGT": not a > b, "NLE": not a <= b,
                "NEQ": a != b, "NLT": not a < b}[name]
    width = int(kind[1:])
    mask = (1 << width) - 1
    a, b = (signed(a, width), signed(b, width)) if kind[0] == "I" else (a & mask, b & mask)
    return {"LT": a < b, "EQ": a == b, "LE": a <= b, "GT": a > b, "NE": a != b, "LG": a != b,
            "GE": a >= b}[name]


def inline(text, outputs, inputs, clobbers=""):
    return f'asm volatile("{text}" : {outputs} : {inputs} : "memory"{clobbers});'


V32 = '"v"(a), "v"(b), "v"(c)'
S32 = '"s"(sa), "s"(sb), "s"(sc), "s"(sd)'


def vector(text, reference, mask=M32):
    return (inline(text, '"=&v"(r0)', V32) + (f" r0 &= {mask}u;" if mask != M32 else ""),
            lambda x, l: (reference(*x[l][:3]) & mask, 0))


def scalar(text, reference):
    """%0, and %1 = SCC, from uniform a, b, c, d = %2..%5."""
    return (inline(text + r"\n s_cselect_b32 %1, 1, 0", '"=&s"(r0), "=&s"(r1)', S32, ', "scc"'),
            lambda x, l: reference(*x[0]))


def wide(x, at):
    return x[at] | x[at + 1] << 32


def vector_compare(op, name, kind, form):
    operands = '"v"(A), "v"(C)' if kind.endswith("64") else '"v"(a), "v"(b)'
    small = "" if form == "E32" else "%0, "
    mnemonic = f"v_{op.lower()}_{name.lower()}_{kind.lower()}_{form.lower()}"
    if op == "CMPX":  # writes exec alone
        body = inline(rf"s_mov_b32 %1, exec_lo\n {mnemonic} %2, %3\n s_mov_b32 %0, exec_lo\n "
                      r"s_mov_b32 exec_lo, %1", '"=&s"(r0), "=&s"(r1)', operands) + " r1 = 0;"
    elif form == "E32":
        body = inline(rf"{mnemonic} vcc_lo, %1, %2\n s_mov_b32 %0, vcc_lo", '"=s"(r0)', operands,
                      ', "vcc"')
    else:
        body = inline(f"{mnemonic} {small}%1, %2", '"=s"(r0)', operands)

    def reference(x, _):
        pairs = [(wide(v, 0), wide(v, 2)) if kind.endswith("64") else v[:2] for v in x]
        return sum(compare(name, kind, p, q) << i for i, (p, q) in enumerate(pairs)), 0
    return body, reference


def scalar_compare(mnemonic, name, kind):
    long = kind.endswith("64")
    body = inline(rf"{mnemonic} %1, %2\n s_cselect_b32 %0, 1, 0", '"=s"(r0)',
                  '"s"(sA), "s"(sC)' if long else '"s"(sa), "s"(sb)', ', "scc"')
    return body, lambda x, l: (int(compare(name, kind, *((wide(x[0], 0), wide(x[0], 2)) if long
                                                         else x[0][:2]))), 0)


HALVES = {  # of a dual instruction: operands and what becomes of the destination's old value
    "MOV_B32": ("{d}, {p}", lambda p, q, old, vcc: p),
    "ADD_F32": ("{d}, {p}, {q}", lambda p, q, old, vcc: single(number(p) + number(q))),
    "SUB_F32": ("{d}, {p}, {q}", lambda p, q, old, vcc: single(number(p) - number(q))),
    "MUL_F32": ("{d}, {p}, {q}", lambda p, q, old, vcc: single(number(p) * number(q))),
    "MAX_F32": ("{d}, {p}, {q}", lambda p, q, old, vcc: max((p, q), key=number)),
    "MAX_NUM_F32": ("{d}, {p}, {q}", lambda p, q, old, vcc: max((p, q), key=number)),
    "FMAC_F32": ("{d}, {p}, {q}", lambda p, q, old, vcc: fma(p, q, old)),
    "FMAAK_F32": (f"{{d}}, {{p}}, {{q}}, {LITERAL:#x}", lambda p, q, old, vcc: fma(p, q, LITERAL)),
    "FMAMK_F32": (f"{{d}}, {{p}}, {LITERAL:#x}, {{q}}", lambda p, q, old, vcc: fma(p, LITERAL, q)),
    "CNDMASK_B32": ("{d}, {p}, {q}", lambda p, q, old, vcc: q if vcc else p),
    "LSHLREV_B32": ("{d}, {p}, {q}", lambda p, q, old, vcc: q << (p & 31) & M32),
    "AND_B32": ("{d}, {p}, {q}", lambda p, q, old, vcc: p & q),
    "ADD_NC_U32": ("{d}, {p}, {q}", lambda p, q, old, vcc: (p + q) & M32),
}


def dual(first, second):
    """Both halves, then again with a second half that reads the first one's old destination."""
    moves = r"v_mov_b32 v1, %2\n v_mov_b32 v2, %3\n v_mov_b32 v3, %4\n v_mov_b32 v4, %5\n " \
            r"v_mov_b32 v10, %4\n v_mov_b32 v11, %5\n v_cmp_gt_u32_e32 vcc_lo, %2, %3\n "
    x_text, x_of = HALVES[first]
    y_text, y_of = HALVES[second]

    def run(source):
        x_half = f"v_dual_{first.lower()} " + x_text.format(d="v10", p="v1", q="v3")
        y_half = f"v_dual_{second.lower()} " + y_text.format(d="v11", p=source, q="v4")
        return inline(moves + rf"{x_half} :: {y_half}\n v_mov_b32 %0, v10\n v_mov_b32 %1, v11",
                      '"=&v"(r0), "=&v"(r1)', '"v"(a), "v"(b), "v"(c), "v"(d)',
                      ', "v1", "v2", "v3", "v4", "v10", "v11", "vcc"')

    def result(v, source):
        a, b, c, d = v
        return x_of(a, c, c, a > b), y_of(b if source == "v2" else c, d, d, a > b)

    body = run("v2") + " uint32_t s0 = r0, s1 = r1; " + run("v10") + \
        " r0 = r0 * 5u ^ s0; r1 = r1 * 5u ^ s1;"

    def reference(x, l):
        one, two = result(x[l], "v2"), result(x[l], "v10")
        return tuple((t * 5 ^ o) & M32 for o, t in zip(one, two))
    return body, reference


def memory_tests(new):
    """Loads and stores; new: gfx12, whose waits have other names."""
    wait_shared = "s_wait_dscnt 0x0" if new else "s_waitcnt lgkmcnt(0)"
    wait_scalar = "s_wait_kmcnt 0x0" if new else "s_waitcnt lgkmcnt(0)"
    wait_load = "s_wait_loadcnt 0x0" if new else "s_waitcnt vmcnt(0)"
    wait_store = "s_wait_storecnt 0x0" if new else "s_waitcnt_vscnt null, 0x0"

    def two_words(mnemonic, first, second, scale):
        text = rf"{mnemonic} %0, %1, %2 offset0:{first} offset1:{second}\n {wait_shared}"
        return ("r1 = lds_at(lane * 4u); " + inline(text, "", '"v"(r1), "v"(a), "v"(b)') +
                f" r0 = lds[lane + {first * scale}u]; r1 = lds[lane + {second * scale}u];",
                lambda x, l: (x[l][0], x[l][1]))

    return {
        "S_LOAD_B512": (
            "words16 w; " + inline(rf"s_load_b512 %0, %1, 0x40\n {wait_scalar}", '"=&s"(w)',
                                   '"s"(x)') + " r0 = w[lane & 15u];",
            lambda x, l: (x[4 + (l & 15) // 4][l & 3], 0)),
        "S_LOAD_U16": (
            inline(rf"s_load_u16 %0, %2, 0x2\n s_load_u16 %1, %2, 0x14\n {wait_scalar}",
                   '"=&s"(r0), "=&s"(r1)', '"s"(x)'),
            lambda x, l: (x[0][0] >> 16, x[1][1] & 0xffff)),
        "GLOBAL_LOAD_I8": (
            inline(r"global_load_i8 %0, %2, off offset:3\n "
                   rf"global_load_i8 %1, %2, off offset:9\n {wait_load}",
                   '"=&v"(r0), "=&v"(r1)', '"v"(x + 4u * lane)'),
            lambda x, l: (signed(x[l][0] >> 24, 8) & M32, signed(x[l][2] >> 8, 8) & M32)),
        "GLOBAL_STORE_B64": (
            inline(rf"global_store_b64 %0, %1, off\n {wait_store}", "",
                   '"v"(spare + 2u * lane), "v"(A)') +
            " r0 = spare[2u * lane]; r1 = spare[2u * lane + 1u];",
            lambda x, l: (x[l][0], x[l][1])),
        "DS_STORE_2ADDR_B32": two_words("ds_store_2addr_b32", 1, 200, 1),
        "DS_STORE_2ADDR_STRIDE64_B32": two_words("ds_store_2addr_stride64_b32", 1, 5, 64),
        "DS_LOAD_B128": (
            "uint32_t *to = lds + 4u * lane + 4u; to[0] = a; to[1] = b; to[2] = c; to[3] = d; "
            "words4 w; r1 = lds_at(lane * 16u); " +
            inline(rf"ds_load_b128 %0, %1 offset:16\n {wait_shared}", '"=&v"(w)', '"v"(r1)') +
            " r0 = w[0] ^ w[1] * 3u; r1 = w[2] ^ w[3] * 5u;",
            lambda x, l: ((x[l][0] ^ x[l][1] * 3) & M32, (x[l][2] ^ x[l][3] * 5) & M32)),
    }


def added(a, k):
    total = signed(a, 32) + k
    return total & M32, int(not -2**31 <= total < 2**31)


def product(x, l):
    total = (signed(x[l][0], 32) * signed(x[l][1], 32) + wide(x[l], 0)) & M64
    return total & M32, total >> 32


def multiply_add(mnemonic):
    return (inline(f"{mnemonic} %0, vcc_lo, %1, %2, %3", '"=&v"(C)',
                   '"v"(a), "v"(b), "v"(A)', ', "vcc"') +
            " r0 = (uint32_t)C; r1 = (uint32_t)(C >> 32);", product)


PAIR_SUM = scalar(r"s_add_co_u32 %0, %2, %3\n s_add_co_ci_u32 %0, %4, %5",
                  lambda a, b, c, d: ((total := c + d + (a + b >> 32)) & M32, total >> 32))
PATTERNS = {
    "V_ALIGNBIT_B32": vector("v_alignbit_b32 %0, %1, %2, %3",
                             lambda a, b, c: (a << 32 | b) >> (c & 31)),
    "V_LSHRREV_B16": vector("v_lshrrev_b16 %0, %1, %2", lambda a, b, c: (b & 0xffff) >> (a & 15),
                            0xffff),
    "V_SUB_NC_U16": vector("v_sub_nc_u16 %0, %1, %2", lambda a, b, c: a - b, 0xffff),
    "V_LSHRREV_B32_E64": vector("v_lshrrev_b32_e64 %0, %1, %2", lambda a, b, c: b >> (a & 31)),
    "V_OR_B32_E64": vector("v_or_b32_e64 %0, %1, %2", lambda a, b, c: a | b),
    "V_MAX3_U32": vector("v_max3_u32 %0, %1, %2, %3", lambda a, b, c: max(a, b, c)),
    "V_FMAC_F32_E64": vector(r"v_mov_b32 %0, %3\n v_fmac_f32_e64 %0, %1, -%2",
                             lambda a, b, c: fma(a, b ^ 0x80000000, c)),
    "S_ADDK_I32": scalar(r"s_mov_b32 %0, %2\n s_addk_i32 %0, 0xc0de",
                         lambda a, b, c, d: added(a, signed(0xc0de, 16))),
    "S_ADDK_CO_I32": scalar(r"s_mov_b32 %0, %2\n s_addk_co_i32 %0, 0xc0de",
                            lambda a, b, c, d: added(a, signed(0xc0de, 16))),
    "S_MULK_I32": scalar(r"s_cmp_eq_u32 %2, %2\n s_mov_b32 %0, %2\n s_mulk_i32 %0, 0xff3b",
                         lambda a, b, c, d: (a * signed(0xff3b, 16) & M32, 1)),
    "S_OR_NOT1_B32": scalar("s_or_not1_b32 %0, %2, %3",
                            lambda a, b, c, d: (v := (a | ~b) & M32, int(v != 0))),
    "S_BITCMP0_B32": scalar(r"s_mov_b32 %0, 0\n s_bitcmp0_b32 %2, %3",
                            lambda a, b, c, d: (0, int(a >> (b & 31) & 1 == 0))),
    "S_BITCMP1_B32": scalar(r"s_mov_b32 %0, 0\n s_bitcmp1_b32 %2, %3",
                            lambda a, b, c, d: (0, a >> (b & 31) & 1)),
    "S_FMAAK_F32": scalar(rf"s_cmp_eq_u32 %2, %2\n s_fmaak_f32 %0, %2, %3, {LITERAL:#x}",
                          lambda a, b, c, d: (fma(a, b, LITERAL), 1)),
    "S_FMAMK_F32": scalar(rf"s_cmp_eq_u32 %2, %2\n s_fmamk_f32 %0, %2, {LITERAL:#x}, %3",
                          lambda a, b, c, d: (fma(a, LITERAL, b), 1)),
}
PATTERNS.update({
    "S_ADD_CO_U32": PAIR_SUM,
    "S_ADD_CO_CI_U32": PAIR_SUM,
    "V_MAD_I64_I32": multiply_add("v_mad_i64_i32"),
    "V_MAD_CO_I64_I32": multiply_add("v_mad_co_i64_i32"),
    "V_MAX_U32_E32_DPP": (
        " ".join(inline(rf"v_max_u32_dpp %0, %1, %2 row_xmask:{m} row_mask:0xf bank_mask:0xf",
                        f'"=&v"({out})', V32) for m, out in ((1, "r0"), (8, "r1"))),
        lambda x, l: tuple(max(x[l ^ m][0], x[l][1]) for m in (1, 8))),
    "S_OR_SAVEEXEC_B32": (
        inline(r"s_mov_b32 s40, exec_lo\n s_mov_b32 exec_lo, %3\n s_or_saveexec_b32 %0, %2\n "
               r"s_mov_b32 %1, exec_lo\n s_mov_b32 exec_lo, s40",
               '"=&s"(r0), "=&s"(r1)', S32, ', "s40", "scc"'),
        lambda x, l: (x[0][1], x[0][0] | x[0][1])),
    "S_OR_B64": (
        inline(r"s_or_b64 %0, %2, %3\n s_cselect_b32 %1, 1, 0", '"=&s"(A), "=&s"(r1)',
               '"s"(sA), "s"(sC)', ', "scc"') + " r0 = (uint32_t)A ^ (uint32_t)(A >> 32) * 3u;",
        lambda x, l: ((x[0][0] | x[0][2]) ^ (x[0][1] | x[0][3]) * 3 & M32,
                      int(wide(x[0], 0) | wide(x[0], 2) != 0))),
    "S_GETPC_B64": (
        inline(r"s_getpc_b64 %0\n s_getpc_b64 %1", '"=&s"(sA), "=&s"(sC)', '"s"(sa)') +
        " r0 = (uint32_t)(sC - sA); r1 = (uint32_t)((sC - sA) >> 32);", lambda x, l: (4, 0)),
})
PATTERNS.update({f"V_CVT_F32_UBYTE{n}_E32": vector(
    f"v_cvt_f32_ubyte{n}_e32 %0, %1", lambda a, b, c, n=n: single(float(a >> 8 * n & 255)))
    for n in range(4)})


def test_of(op, new):
    """Body and reference of an opcode's kernel; None where there is no test."""
    found = re.fullmatch(r"V_(CMPX?)_([A-Z]+)_([IUF]\d\d)_(E32|E64)", op)
    if found:
        return vector_compare(*found.groups())
    found = re.fullmatch(r"S_CMP_([A-Z]+)_([IUF]\d\d)", op)
    if found:
        return scalar_compare(op.lower(), *found.groups())
    found = re.fullmatch(r"V_DUAL_(\w+?)_V_DUAL_(\w+)", op)
    if found and found.group(1) in HALVES and found.group(2) in HALVES:
        return dual(*found.groups())
    return PATTERNS.get(op) or memory_tests(new).get(op)
