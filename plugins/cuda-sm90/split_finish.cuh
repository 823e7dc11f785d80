/* SPDX-License-Identifier: MIT
 * split_finish.cuh - from the parts of a block's waves to the output, canonical order.
 *
 * wave parts -> a segment's part -> a run's part; that of a row's only run -> the row, others are
 * stored, and split_merge -> the row.  A thread of the block holds PER neighbouring elements of one
 * head. */
#ifndef OPREG_SM90_SPLIT_FINISH_CUH
#define OPREG_SM90_SPLIT_FINISH_CUH

#include "split_rows.cuh"

/* canonical_exp of x <= 0 or NaN: the same bits, fewer instructions. */
DEVICE float exp_below(float x) {
    float t, n, v, r, p;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(x), "f"(-104.0f));
    v = t * 0x1.715476p0f + 0x1.8p23f;
    n = v - 0x1.8p23f;
    r = CANONICAL_FMA(n, -0x1.63p-1f, t);
    r = CANONICAL_FMA(n, 0x1.bd0106p-13f, r);
    p = CANONICAL_FMA(0x1.a0d2cep-13f, r, 0x1.6e879cp-10f);
    p = CANONICAL_FMA(p, r, 0x1.11121p-7f);
    p = CANONICAL_FMA(p, r, 0x1.555382p-5f);
    p = CANONICAL_FMA(p, r, 0x1.555554p-3f);
    p = CANONICAL_FMA(p, r, 0x1p-1f);
    p = CANONICAL_FMA(p, r * r, r) + 1.0f;
    /* n is in the low bits of v; 2^(n + 64) keeps the first product exact */
    return p * float_of((bits_of(v) << 23) + ((127u + 64u) << 23)) * 0x1p-64f;
}

/* The sum by two factors; a negative one says that this side has no key. */
DEVICE float merged_value(float left, float right, float fl, float fr) {
    float both = left * fl + right * fr;
    return fr < 0.0f ? left : fl < 0.0f ? right : both;
}

/* m, l and whether there is a key, of one head; the factors of a merge lie with the two sides. */
struct part_sums {
    float m, l;
    bool any;
};

/* Merges with the part of the lane `distance` away.  The own part's factor; the other's lies with
 * the other. */
DEVICE float merge_sums(part_sums *p, int distance) {
    float m = wave_xor(p->m, distance), l = wave_xor(p->l, distance);
    bool any = wave_xor((int32_t)p->any, distance) != 0;
    float both = fmaxf(p->m, m);
    float mine = p->any ? exp_below(p->m - both) : -1.0f;
    float theirs = wave_xor(mine, distance);
    p->l = merged_value(p->l, l, mine, theirs);
    p->m = p->any ? (any ? both : p->m) : m;
    p->any |= any;
    return mine;
}

/* The tree over 2^LEVELS neighbouring lanes, a part each: all maxima first, so that no exponential
 * waits for another.  factors[u]: of the lane's node below level u, as merge_sums gives them. */
template <int LEVELS> DEVICE void merge_lanes(part_sums *p, float *factors) {
    constexpr uint32_t COUNT = 1u << LEVELS;
    uint32_t lane = lane_index(), leaf = lane & (COUNT - 1u);
    uint32_t there = wave_ballot(p->any) >> (lane - leaf);
    float m[LEVELS + 1];
    m[0] = p->m;
#pragma unroll
    for (int u = 0; u < LEVELS; u++) {
        m[u + 1] = fmaxf(m[u], wave_xor(m[u], 1 << u));
    }
#pragma unroll
    for (int u = 0; u < LEVELS; u++) {
        uint32_t own = there >> (leaf >> u << u) & ((1u << (1 << u)) - 1u);
        factors[u] = own != 0u ? exp_below(m[u] - m[u + 1]) : -1.0f;
    }
#pragma unroll
    for (int u = 0; u < LEVELS; u++) {
        p->l = merged_value(p->l, wave_xor(p->l, 1 << u), factors[u], wave_xor(factors[u], 1 << u));
    }
    p->m = m[LEVELS];
    p->any = (there & (uint32_t)((1ull << COUNT) - 1u)) != 0u;
}

template <int DIM, int HEADS, int WAVES> struct __align__(16) split_exchange {
    static const int threads = 32 * WAVES;
    float o[WAVES][HEADS][DIM];
    float run_o[SPLIT_LEVELS(DIM)]
               [HEADS * DIM]; /* nodes of the run's tree that wait for their right one */
    float run_m[SPLIT_LEVELS(DIM)][threads], run_l[SPLIT_LEVELS(DIM)][threads];
    float m[WAVES][HEADS], l[WAVES][HEADS];
    int any[WAVES];
};

/* Neighbouring floats, by vectors where they are four or more. */
template <int COUNT> DEVICE void copy_floats(const float *from, float *to) {
    if constexpr (COUNT >= 4) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            *(float4 *)(to + i) = *(const float4 *)(from + i);
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            to[i] = from[i];
        }
    }
}

/* What a thread has of a part. */
template <int PER> struct thread_part {
    __align__(16) float o[PER];
    part_sums sums;
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < PER; i++) {
            o[i] = 0.0f;
        }
        sums = {float_of(0xff800000u), 0.0f, false};
    }
};

/* The waves' parts as a tree, after a barrier. */
template <int DIM, int HEADS, int WAVES>
DEVICE void merge_waves(const split_exchange<DIM, HEADS, WAVES> &x,
                        thread_part<HEADS * DIM / (32 * WAVES)> *out) {
    constexpr int PER = HEADS * DIM / (32 * WAVES), GROUP = DIM / PER;
    int thread = computed_here((int)thread_index()), head = thread / GROUP,
        element = thread % GROUP * PER;
    int leaf = thread & (WAVES - 1), first = thread & 31 & ~(WAVES - 1);
    __align__(16) float v[WAVES][PER];
#pragma unroll
    for (int w = 0; w < WAVES; w++) {
        copy_floats<PER>(&x.o[w][head][element], v[w]);
    }
    out->sums = {x.m[leaf][head], x.l[leaf][head], x.any[leaf] != 0};
    constexpr int LEVELS = WAVES == 8 ? 3 : WAVES == 4 ? 2 : 1;
    float factors[LEVELS];
    merge_lanes<LEVELS>(&out->sums, factors);
#pragma unroll
    for (int u = 0; u < LEVELS; u++) {
#pragma unroll
        for (int w = 0; w < WAVES; w += 2 << u) {
            float left = wave_read(factors[u], first | w);
            float right = wave_read(factors[u], first | (w + (1 << u)));
#pragma unroll
            for (int i = 0; i < PER; i++) {
                v[w][i] = merged_value(v[w][i], v[w + (1 << u)][i], left, right);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < PER; i++) {
        out->o[i] = v[0][i];
    }
}

/* left and right become right: left is a node of the run's tree in shared memory. */
template <int DIM, int HEADS, int WAVES>
DEVICE void merge_node(const split_exchange<DIM, HEADS, WAVES> &x, int level,
                       thread_part<HEADS * DIM / (32 * WAVES)> *part) {
    constexpr int PER = HEADS * DIM / (32 * WAVES);
    int thread = computed_here((int)thread_index());
    float m = x.run_m[level][thread], both = fmaxf(m, part->sums.m);
    float left = m == m ? exp_below(m - both) : -1.0f;
    float right = part->sums.any ? exp_below(part->sums.m - both) : -1.0f;
    __align__(16) float o[PER];
    copy_floats<PER>(&x.run_o[level][thread * PER], o);
#pragma unroll
    for (int i = 0; i < PER; i++) {
        part->o[i] = merged_value(o[i], part->o[i], left, right);
    }
    part->sums.l = merged_value(x.run_l[level][thread], part->sums.l, left, right);
    part->sums.m = m == m ? (part->sums.any ? both : m) : part->sums.m;
    part->sums.any |= m == m;
}

/* Adds the part of segment number i of its run, of which `first` is the first with keys.  The last
 * leaves the run's part in *part. */
template <int DIM, int HEADS, int WAVES>
DEVICE void add_to_run(split_exchange<DIM, HEADS, WAVES> &x, int32_t i, int32_t first, bool last,
                       thread_part<HEADS * DIM / (32 * WAVES)> *part) {
    constexpr int PER = HEADS * DIM / (32 * WAVES);
    int thread = computed_here((int)thread_index());
#pragma unroll 1
    for (int level = 0; level < SPLIT_LEVELS(DIM); level++) {
        if ((i >> level & 1) == 0) {
            if (!last) {
                copy_floats<PER>(part->o, &x.run_o[level][thread * PER]);
                x.run_m[level][thread] = part->sums.any ? part->sums.m : float_of(0x7fc00000u);
                x.run_l[level][thread] = part->sums.l;
                return;
            }
        } else if ((i >> level << level) > first) { /* the node to the left has segments */
            merge_node<DIM, HEADS, WAVES>(x, level, part);
        }
    }
}

template <int DIM, int HEADS, int WAVES>
DEVICE void store_part(const split_args &args, const split_place &place,
                       const thread_part<HEADS * DIM / (32 * WAVES)> &part) {
    constexpr int PER = HEADS * DIM / (32 * WAVES), GROUP = DIM / PER;
    int thread = (int)thread_index(), head = place.first_head + thread / GROUP;
    int64_t at = ((int64_t)place.token * args.base.q_heads + head) * args.parts + place.part;
    if (head > place.last_head) {
        return;
    }
    copy_floats<PER>(part.o, args.o + at * DIM + thread % GROUP * PER);
    if (thread % GROUP == 0) {
        args.m[at] = part.sums.any ? part.sums.m : float_of(0x7fc00000u);
        args.l[at] = part.sums.l;
    }
}

/* Of a head's parts: what a row's elements are divided by, and the sink's share. */
struct row_end {
    float total, keep, sink;
};

/* Stores the row's lse where `first` says so. */
DEVICE row_end end_of_row(const attention_args &a, int32_t token, int32_t head, bool first,
                          const part_sums &sums) {
    row_end end = {sums.any ? sums.l : 1.0f, 1.0f, 0.0f};
    float maximum = sums.m;
    if (sums.any && a.sinks != 0) {
        maximum = canonical_merge(sums.m, a.sinks[head], &end.keep, &end.sink);
        end.total = sums.l * end.keep + 1.0f * end.sink;
    }
    if (first && a.lse != 0) {
        a.lse[(int64_t)token * a.q_heads + head] =
            sums.any ? maximum + canonical_log(end.total) : float_of(0xff800000u);
    }
    return end;
}

/* An element of a row from its sum. */
DEVICE float finished_value(const attention_args &a, int32_t head, float value, const row_end &end,
                            bool any) {
    value = a.sinks != 0 ? value * end.keep + 0.0f * end.sink : value;
    value = CANONICAL_DIV(value, end.total);
    value = a.v_scale != 0 ? value * a.v_scale[head / (a.q_heads / a.kv_heads)] : value;
    return any ? value : 0.0f;
}

/* One element of a row from its sum; sums are those of the head. */
DEVICE void store_element(const attention_args &a, int32_t token, int32_t head, int32_t element,
                          float value, const part_sums &sums) {
    row_end end = end_of_row(a, token, head, element == 0, sums);
    canonical_store(a.out, token * a.out_stride + (int64_t)head * a.head_dim + element, a.out_dtype,
                    finished_value(a, head, value, end, sums.any));
}

/* A run's part to where it belongs: a row that is one run is finished. */
template <int DIM, int HEADS, int WAVES>
DEVICE void finish(const split_args &args, const split_place &place,
                   const thread_part<HEADS * DIM / (32 * WAVES)> &part) {
    constexpr int PER = HEADS * DIM / (32 * WAVES), GROUP = DIM / PER;
    int thread = (int)thread_index(), head = place.first_head + thread / GROUP;
    if (args.parts > 1) {
        if (place.first < place.end) {
            store_part<DIM, HEADS, WAVES>(args, place, part);
        }
    } else if (head <= place.last_head) {
#pragma unroll
        for (int i = 0; i < PER; i++) {
            store_element(args.base, place.token, head, thread % GROUP * PER + i, part.o[i],
                          part.sums);
        }
    }
}

/* Parts of eight neighbours of a head, four elements a lane. */
DEVICE void load_parts(const float *o, int32_t row, int32_t part, int32_t from, int32_t used,
                       float4 *v) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        v[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (part + i < used && part + i >= from) {
            v[i] = ((const float4 *)o)[(int64_t)i * row];
        }
    }
}

DEVICE float4 merged_values(const float4 &v, const float4 &w, float left, float right) {
    return make_float4(merged_value(v.x, w.x, left, right), merged_value(v.y, w.y, left, right),
                       merged_value(v.z, w.z, left, right), merged_value(v.w, w.w, left, right));
}

/* Up to 8 * RUNS parts: a lane has four elements of a run of eight, and the factors of the part
 * whose number in its group, or half of it, the lane has.  Runs meet in shared memory. */
template <int DIM, int RUNS>
DEVICE void merge_few(const split_args &args, int32_t token, int32_t from, int32_t used,
                      bool write) {
    extern __shared__ __align__(16) float merge_shared[];
    constexpr int LANES = DIM / 4, HALVES = RUNS == 8 ? 2 : 1, PARTS = 8 * RUNS / HALVES;
    constexpr int LEVELS = RUNS == 1 ? 3 : RUNS == 2 ? 4 : 5;
    constexpr int ROW = LANES * RUNS; /* threads of a head */
    const attention_args &a = args.base;
    int32_t t = (int32_t)thread_index(), lane = t & 31, leaf = lane & (PARTS - 1);
    int32_t column = t % LANES, run = t / LANES % RUNS, base = lane & ~(PARTS - 1);
    int32_t head = (int32_t)(block_x() * (thread_count() / ROW)) + t / ROW;
    write = write && head < a.q_heads;
    head = head < a.q_heads ? head : a.q_heads - 1;
    int64_t first = ((int64_t)token * a.q_heads + head) * args.parts;
    float4 v[8];
    float factors[HALVES][LEVELS];
    part_sums sums[HALVES];
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        int32_t part = half * PARTS + leaf;
        sums[half] = {float_of(0xff800000u), 0.0f, false};
        if (part >= from && part < used) {
            float m = args.m[first + part];
            sums[half].any = m == m;
            sums[half].m = sums[half].any ? m : sums[half].m;
            sums[half].l = args.l[first + part];
        }
    }
    load_parts(args.o + (first + run * 8) * DIM + column * 4, LANES, run * 8, from, used, v);
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        merge_lanes<LEVELS>(&sums[half], factors[half]);
    }
    int32_t in_half = run % (RUNS / HALVES);
#pragma unroll
    for (int u = 0; u < 3; u++) {
        float factor = HALVES == 2 && run >= RUNS / 2 ? factors[HALVES - 1][u] : factors[0][u];
#pragma unroll
        for (int i = 0; i < 8; i += 2 << u) {
            int at = base + in_half * 8 + i;
            float left = wave_read(factor, at), right = wave_read(factor, at + (1 << u));
            v[i] = merged_values(v[i], v[i + (1 << u)], left, right);
        }
    }
    float value[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
    if constexpr (RUNS > 1) { /* a thread finishes element `run` of its four, or two of them */
        ((float4 *)merge_shared)[t] = v[0];
        block_barrier();
        const float *n = merge_shared + (t - run * LANES) * 4;
#pragma unroll
        for (int e = 0; e < (RUNS == 2 ? 2 : 1); e++) {
            float node[RUNS];
#pragma unroll
            for (int i = 0; i < RUNS; i++) {
                node[i] = n[i * DIM + (run + e * RUNS & 3)];
            }
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
#pragma unroll
                for (int u = 3; u < LEVELS; u++) {
#pragma unroll
                    for (int i = 0; i < RUNS / HALVES; i += 2 << (u - 3)) {
                        int at = half * (RUNS / HALVES) + i;
                        float left = wave_read(factors[half][u], base + 8 * i),
                              right = wave_read(factors[half][u], base + 8 * i + (1 << u));
                        node[at] = merged_value(node[at], node[at + (1 << (u - 3))], left, right);
                    }
                }
            }
            value[e] = node[0];
            if constexpr (HALVES == 2) {
                part_sums low = sums[0], high = sums[HALVES - 1];
                float both = fmaxf(low.m, high.m);
                float left = low.any ? exp_below(low.m - both) : -1.0f;
                float right = high.any ? exp_below(high.m - both) : -1.0f;
                value[e] = merged_value(node[0], node[RUNS / 2], left, right);
                sums[0] = {both, merged_value(low.l, high.l, left, right), low.any || high.any};
            }
        }
    }
    row_end end = end_of_row(a, token, head, write && t % ROW == 0, sums[0]);
    int64_t to = token * a.out_stride + (int64_t)head * DIM + column * 4;
#pragma unroll
    for (int e = 0; e < (RUNS == 1 ? 4 : RUNS == 2 ? 2 : 1); e++) {
        int at = RUNS == 1 ? e : run + e * RUNS & 3;
        float row = finished_value(a, head, value[e], end, sums[0].any);
        if (write && run < 4) {
            canonical_store(a.out, to + at, a.out_dtype, row);
        }
    }
}

/* Merges up to 64 parts: first with none, while the parts are computed, so that the code is there
 * when they are. */
template <int DIM, int RUNS>
DEVICE void merge_twice(const split_args &args, int32_t token, int32_t from, int32_t used) {
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            wait_for_launch_ahead();
        }
        merge_few<DIM, RUNS>(args, token, from, pass == 1 ? used : 0, pass == 1);
        if (RUNS > 1) {
            block_barrier();
        }
    }
}

/* Of a token's parts the first with keys, and the end of those with keys. */
DEVICE void parts_of_token(const split_args &args, int32_t token, int32_t *from, int32_t *used) {
    visible_keys keys = keys_of_token(args.base, token);
    int32_t end = keys.end > keys.begin ? (keys.end + args.part_keys - 1) / args.part_keys : 0;
    *from = keys.begin / args.part_keys << args.halves;
    *used = end << args.halves;
}

/* Up to eight parts, in few registers.  Grid: (blocks of query heads, tokens). */
template <int DIM> DEVICE void split_merge_short(const split_args &args) {
    int32_t token = (int32_t)block_y(), from, used;
    let_next_launch_start();
    parts_of_token(args, token, &from, &used);
    merge_twice<DIM, 1>(args, token, from, used);
}

/* Grid: (query heads, or blocks of them where parts are at most 64; tokens).  A position p of the
 * tree is the right child once, so its factors lie at p: left negative takes the right part, right
 * negative the left. */
template <int DIM> DEVICE void split_merge(const split_args &args) {
    extern __shared__ __align__(16) float merge_shared[];
    const attention_args &a = args.base;
    int32_t head = (int32_t)block_x(), token = (int32_t)block_y(), count = args.parts;
    int32_t t = (int32_t)thread_index();
    let_next_launch_start();
    int32_t from, used;
    parts_of_token(args, token, &from, &used);
    if (count <= 8) {
        return merge_twice<DIM, 1>(args, token, from, used);
    } else if (count <= 16) {
        return merge_twice<DIM, 2>(args, token, from, used);
    } else if (count <= 32) {
        return merge_twice<DIM, 4>(args, token, from, used);
    } else if (count <= 64) {
        return merge_twice<DIM, 8>(args, token, from, used);
    }
    float *m = merge_shared, *l = m + count, *fl = l + count, *fr = fl + count, *nodes = fr + count;
    int64_t first = ((int64_t)token * a.q_heads + head) * count;
    wait_for_launch_ahead();
    /* runs of eight parts, then the tree over the runs; the first run is asked for at once */
    constexpr int LANES = DIM / 4, RUNS = SPLIT_MERGE_THREADS / LANES;
    int32_t runs = (used + 7) / 8, e4 = t % LANES;
    float4 v[8];
    load_parts(args.o + (first + t / LANES * 8) * DIM + e4 * 4, LANES, t / LANES * 8, from, used,
               v);
    /* absent parts have the maximum NaN: a maximum itself never is one */
    for (int32_t s = t; s < used; s += SPLIT_MERGE_THREADS) {
        m[s] = s >= from ? args.m[first + s] : float_of(0x7fc00000u);
        l[s] = s >= from ? args.l[first + s] : 0.0f;
    }
    for (int32_t d = 1; d < used; d <<= 1) {
        block_barrier();
        for (int32_t j = 2 * d * t; j + d < used; j += 2 * d * SPLIT_MERGE_THREADS) {
            int32_t p = j + d;
            bool left = m[j] == m[j], right = m[p] == m[p];
            float a1, a2, both = canonical_merge(m[j], m[p], &a1, &a2);
            fl[p] = left ? a1 : -1.0f;
            fr[p] = right ? a2 : -1.0f;
            l[j] = left ? (right ? l[j] * a1 + l[p] * a2 : l[j]) : l[p];
            m[j] = left ? (right ? both : m[j]) : m[p];
        }
    }
    block_barrier();
    for (int32_t run = t / LANES; run < runs; run += RUNS) {
        if (run >= RUNS) {
            load_parts(args.o + (first + run * 8) * DIM + e4 * 4, LANES, run * 8, from, used, v);
        }
#pragma unroll
        for (int d = 1; d < 8; d <<= 1) {
#pragma unroll
            for (int i = 0; i + d < 8; i += 2 * d) {
                int32_t p = run * 8 + i + d;
                if (p < used) {
                    v[i] = merged_values(v[i], v[i + d], fl[p], fr[p]);
                }
            }
        }
        ((float4 *)(nodes + run * DIM))[e4] = v[0];
    }
    for (int32_t d = 1; d < runs; d <<= 1) {
        block_barrier();
        for (int32_t i = t; i < (runs + 2 * d - 1) / (2 * d) * DIM; i += SPLIT_MERGE_THREADS) {
            int32_t j = i / DIM * 2 * d, e = i % DIM, p = (j + d) * 8;
            if (j + d < runs) {
                nodes[j * DIM + e] =
                    merged_value(nodes[j * DIM + e], nodes[(j + d) * DIM + e], fl[p], fr[p]);
            }
        }
    }
    block_barrier();
    part_sums sums = {0.0f, 0.0f, used > 0 && m[0] == m[0]};
    if (sums.any) {
        sums.m = m[0];
        sums.l = l[0];
    }
    for (int32_t e = t; e < DIM; e += SPLIT_MERGE_THREADS) {
        store_element(a, token, head, e, sums.any ? nodes[e] : 0.0f, sums);
    }
}

#endif /* OPREG_SM90_SPLIT_FINISH_CUH */
