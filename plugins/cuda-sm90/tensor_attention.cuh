/* SPDX-License-Identifier: MIT
 * tensor_attention.cuh - paged_attn_decode on tensor cores, in an order of its own.
 *
 * The blocks of a cluster (along z) share a KV head and four of its query heads.  A wave takes
 * every so many groups of 32 keys, through its own ring of tiles of 16 rows (K, K, V, V), and keeps
 * one maximum, sum and output a head over all of them.  Scores are K * q^T, outputs V^T *
 * weights^T: the eight columns are the heads' upper and lower halves beside each other, each of the
 * cache's type, so that q and the weights count with twice its precision, and a lane has one head,
 * lane % 4.  In the end a block merges its waves and gives every block of the cluster its share of
 * the outputs; at head_dim 256 it has a part of the keys for itself, which is merged by another
 * launch.
 *
 * Loops are not unrolled where that is not needed: a short call runs through code that is in no
 * cache. */
#ifndef OPREG_SM90_TENSOR_ATTENTION_CUH
#define OPREG_SM90_TENSOR_ATTENTION_CUH

#include "cluster.cuh"
#include "tensor_operands.cuh"

template <int DIM, int WAVES> struct __align__(128) tensor_shared {
    uint8_t q[2 * TENSOR_HEADS]
             [TENSOR_ROW(2 * DIM)]; /* of each head upper halves, then lower ones */
    float back[TENSOR_HEADS];       /* what the head's scores are multiplied by   */
    uint32_t masks[WAVES][4];       /* of a wave's groups: keys that are there    */
    float wave_m[WAVES][TENSOR_HEADS], wave_l[WAVES][TENSOR_HEADS];
    /* written by the blocks of the cluster, by their ranks: this block's share of their outputs */
    float incoming[TENSOR_HEADS * DIM];
    float m[TENSOR_MOST_CLUSTER][TENSOR_HEADS], l[TENSOR_MOST_CLUSTER][TENSOR_HEADS];
    /* behind it the waves' rings */
};

/* A wave's share of the keys: groups `index`, `index + stride` and so on, below `groups`; its ring
 * has RING tiles.  ALIGNED: caches begin at multiples of 16 bytes. */
template <int DIM, uint32_t KV, int RING, bool ALIGNED> struct tensor_wave {
    typedef tensor_cache<KV> cache;
    static const uint32_t operand = cache::operand;
    static const int bytes = cache::element * DIM, row = TENSOR_ROW(bytes), tile = 16 * row;
    static const int tiles = DIM / 16, steps = cache::steps;
    static const uint32_t ring_bytes = RING * tile;
    const split_args &args;
    visible_keys keys;
    int32_t kv_head, index, groups, stride;
    int32_t asked, page;    /* the group asked for last; the page of the lane's key in the next   */
    row_offsets rows;       /* of the lane's key in the group asked for last                      */
    uint32_t there, *masks; /* keys of that group that are there; of up to four groups, by number */
    uint32_t count, part;   /* groups asked for; what comes next of the last one                  */
    uint32_t k_lane, v_lane, ring;
    uint32_t slot; /* of the tile at hand, and of the one that comes into its place */
    uint32_t q[tiles][2], weights[4];
    float scale, m, l, s[4], o[tiles][4];

    __device__ __forceinline__ int32_t page_of_group(int32_t group) const {
        int32_t position = group * 32 + (int32_t)lane_index();
        return group < groups ? page_in_view(args, keys, position) : -1;
    }

    /* Asks for the tile that comes next; those of a group come in order. */
    __device__ __forceinline__ void ask() {
        if (part == 0u) {
            asked += stride;
            rows = rows_at(args, kv_head, asked * 32 + (int32_t)lane_index(), page);
            there = wave_ballot(page >= 0);
            if (lane_index() == 0u) {
                masks[count & 3u] = there;
            }
            count++;
            page = page_of_group(asked + stride);
            if (asked + stride >= groups) { /* the last one */
                let_next_launch_start();
            }
        }
        if (asked < groups) {
            bool keys_part = part < 2u;
            const void *base = keys_part ? args.base.k : args.base.v;
            bring_rows<bytes, ALIGNED>(ring + slot, (const uint8_t *)base,
                                       keys_part ? rows.k : rows.v, (part & 1u) * 16u, there);
        }
        close_copies();
        part = (part + 1u) & 3u;
        slot = slot + tile == ring_bytes ? 0u : slot + tile;
    }

    /* Scores of keys g and g + 8 of the tile at hand, of the lane's head. */
    __device__ __forceinline__ void score(float *first, float *second) const {
        float d[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
        for (int i = 0; i < tiles / steps; i++) {
            uint32_t x[4];
            load_blocks(x, k_lane + slot + i * 32);
            if constexpr (cache::small) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    uint32_t low = x[2 * half], high = x[2 * half + 1];
                    multiply16<operand>(d[half], widen_pair(low), widen_pair(high),
                                        widen_pair(low >> 16), widen_pair(high >> 16),
                                        q[2 * i + half][0], q[2 * i + half][1]);
                }
            } else {
                multiply16<operand>(d[i & 1], x[0], x[1], x[2], x[3], q[i][0], q[i][1]);
            }
        }
        *first = (d[0][0] + d[1][0]) + (d[0][1] + d[1][1]);
        *second = (d[0][2] + d[1][2]) + (d[0][3] + d[1][3]);
    }

    /* The group's scores to weights; what was there before is brought to the new maximum. */
    __device__ __forceinline__ void weigh(uint32_t mask) {
        const attention_args &a = args.base;
        float most = m;
        if (a.softcap != 0.0f) {
#pragma unroll 1
            for (int i = 0; i < 4; i++) {
                float capped = canonical_score(s[0], 1.0f, scale, a.softcap);
                s[0] = s[1], s[1] = s[2], s[2] = s[3], s[3] = capped;
            }
        }
        float times = a.softcap != 0.0f ? 1.0f : scale;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[i] = s[i] * times;
            s[i] = mask >> 8 * i & 1u ? s[i] : float_of(0xff800000u);
            most = fmaxf(most, s[i]);
        }
        most = fmaxf(most, wave_xor(most, 4));
        most = fmaxf(most, wave_xor(most, 8));
        most = fmaxf(most, wave_xor(most, 16));
        float factor = part_factor(m, most);
        m = most;
        l = l * factor;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float weight = mask >> 8 * i & 1u ? power_below(s[i] - most) : 0.0f, upper, lower;
            l = l + weight;
            unpack_pair<operand>(pack_pair<operand>(weight, 0.0f), &upper, &lower);
            weights[i] = turned_block(pack_pair<operand>(weight, weight - upper));
        }
#pragma unroll
        for (int n = 0; n < tiles; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                o[n][i] = o[n][i] * factor;
            }
        }
    }

    __device__ __forceinline__ void add_values(uint32_t w0, uint32_t w1) {
#pragma unroll
        for (int n = 0; n < tiles; n += steps) {
            uint32_t x[4];
            load_blocks_transposed(x, v_lane + slot + n * (32 / steps));
            if constexpr (cache::small) {
#pragma unroll
                for (int i = 0; i < 4; i++) { /* a column's two keys beside each other */
                    x[i] = __byte_perm(x[i], 0u, 0x3120u);
                }
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    multiply16<operand>(o[n + i], widen_pair(x[i]), widen_pair(x[i] >> 16),
                                        widen_pair(x[2 + i]), widen_pair(x[2 + i] >> 16), w0, w1);
                }
            } else {
                multiply16<operand>(o[n], x[0], x[1], x[2], x[3], w0, w1);
            }
        }
    }

    /* All groups of the wave. */
    __device__ __forceinline__ void attend() {
        uint32_t done = 0u, g = lane_index() >> 2;
#pragma unroll 1
        for (; index < groups; index += stride, done++) {
#pragma unroll
            for (int p = 0; p < 4; p++) {
                wait_for_copies<RING - 1>();
                wave_barrier();
                if (p < 2) {
                    s[0] = s[2];
                    s[1] = s[3];
                    score(&s[2], &s[3]);
                } else {
                    add_values(p == 2 ? weights[0] : weights[2], p == 2 ? weights[1] : weights[3]);
                }
                if (p == 1) {
                    weigh(masks[done & 3u] >> g);
                }
                wave_barrier(); /* the tile is read */
                ask();
            }
        }
        wait_for_copies<0>();
        wave_barrier();
    }
};

/* Stores neighbouring floats at the same place of another block's shared memory. */
template <int COUNT> DEVICE void store_at_rank(const float *mine, uint32_t rank, const float *v) {
    uint32_t at = at_rank(mine, rank);
    if constexpr (COUNT >= 4) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            cluster_store(at + 4u * (uint32_t)i, make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]));
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            cluster_store(at + 4u * (uint32_t)i, v[i]);
        }
    }
}

/* Grid: (KV heads * chunks of four query heads, tokens, blocks of the cluster).  With args.parts
 * above 1, at head_dim 256, there are no clusters: a block is a part, which goes to split_merge. */
template <int DIM, uint32_t KV, int WAVES, int RING, bool ALIGNED>
DEVICE void tensor_attend(const split_args &args) {
    typedef tensor_wave<DIM, KV, RING, ALIGNED> wave_type;
    typedef tensor_shared<DIM, WAVES> memory;
    constexpr int PART = DIM + 8, THREADS = 32 * WAVES, PER = TENSOR_HEADS * DIM / THREADS;
    extern __shared__ __align__(128) uint8_t tensor_memory[];
    memory &shared = *(memory *)tensor_memory;
    uint8_t *rings = tensor_memory + sizeof(memory);
    const attention_args &a = args.base;
    uint32_t lane = lane_index(), wave = wave_index(), g = lane >> 2, t = lane & 3u;
    uint32_t rank = cluster_rank(), size = cluster_size();
    int32_t token = (int32_t)block_y(), group = a.q_heads / a.kv_heads;
    int32_t chunks = (group + TENSOR_HEADS - 1) / TENSOR_HEADS;
    int32_t kv_head = (int32_t)block_x() / chunks;
    int32_t first_head = kv_head * group + (int32_t)block_x() % chunks * TENSOR_HEADS;
    int32_t last_head = kv_head * group + group - 1;
    cluster_arrive(); /* this block runs */
    wave_type w = {args, keys_of_token(a, token), kv_head};
    w.stride = (int32_t)size * WAVES;
    int32_t begin = w.keys.begin, end = w.keys.end, part = (int32_t)block_z();
    bool parts = DIM == 256 && args.parts > 1;
    if (parts) {
        begin = begin > part * args.part_keys ? begin : part * args.part_keys;
        end = end < (part + 1) * args.part_keys ? end : (part + 1) * args.part_keys;
    }
    w.index = begin / 32 + (int32_t)(rank * WAVES + wave);
    w.groups = end / 32 + (end % 32 != 0);
    w.asked = w.index - w.stride;
    w.page = w.page_of_group(w.index);
    w.masks = shared.masks[wave];
    w.count = w.part = w.slot = 0u;
    w.ring = shared_address(rings) + wave * wave_type::ring_bytes;
    w.k_lane = w.ring + (lane & 15u) * wave_type::row + (lane >> 4) * 16u;
    w.v_lane = w.ring + ((lane & 7u) + (lane >> 4) * 8u) * wave_type::row + (lane >> 3 & 1u) * 16u;
#pragma unroll 1
    for (int32_t i = 0; i < RING; i++) {
        /* the launch ahead may write the rows of the request's own queries */
        int32_t last = (w.index + i / 4 * w.stride) * 32 + i % 2 * 16 + 16;
        if (args.chained != 0u && last > w.keys.end - a.max_q) {
            wait_for_launch_ahead();
        }
        w.ask();
    }
    wait_for_launch_ahead();
    if (wave < TENSOR_HEADS) {
        int32_t head = first_head + (int32_t)wave;
        head = head < last_head ? head : last_head;
        prepare_query<DIM, KV>(a, token * a.q_stride + (int64_t)head * DIM, shared.q[2u * wave],
                               &shared.back[wave]);
    }
    block_barrier();
#pragma unroll
    for (int i = 0; i < wave_type::tiles; i += 2) {
        load_blocks(w.q[i],
                    shared_address(shared.q[lane & 7u]) + (lane >> 3) * 16u + (uint32_t)i * 32u);
    }
    w.scale = a.scale * shared.back[t];
    if constexpr (wave_type::cache::small) {
        w.scale = w.scale * a.k_scale[kv_head];
    }
    w.m = float_of(0xff800000u);
    w.l = 0.0f;
#pragma unroll
    for (int n = 0; n < wave_type::tiles; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w.o[n][i] = 0.0f;
        }
    }
    w.attend();
    /* the wave's part, in its ring */
    float *mine = (float *)(rings + wave * wave_type::ring_bytes);
#pragma unroll
    for (int n = 0; n < wave_type::tiles; n++) {
        float *to = mine + t * PART + 16u * (uint32_t)n + (wave_type::cache::small ? 2u * g : g);
        to[0] = w.o[n][0] + w.o[n][1];
        to[wave_type::cache::small ? 1 : 8] = w.o[n][2] + w.o[n][3];
    }
    w.l = w.l + wave_xor(w.l, 4);
    w.l = w.l + wave_xor(w.l, 8);
    w.l = w.l + wave_xor(w.l, 16);
    if (g == 0u) {
        shared.wave_m[wave][t] = w.m;
        shared.wave_l[wave][t] = w.l;
    }
    block_barrier();
    /* the block's part, PER neighbouring elements a thread */
    uint32_t element = thread_index() * PER, of = element / DIM, share = TENSOR_HEADS * DIM / size;
    float most = float_of(0xff800000u), sum = 0.0f;
    __align__(16) float value[PER], add[PER];
#pragma unroll
    for (int i = 0; i < WAVES; i++) {
        most = fmaxf(most, shared.wave_m[i][of]);
    }
#pragma unroll
    for (int i = 0; i < PER; i++) {
        value[i] = 0.0f;
    }
#pragma unroll 4
    for (int i = 0; i < WAVES; i++) {
        float factor = part_factor(shared.wave_m[i][of], most);
        sum = sum + shared.wave_l[i][of] * factor;
        copy_floats<PER>(
            (const float *)(rings + (uint32_t)i * wave_type::ring_bytes) + of * PART + element % DIM, add);
#pragma unroll
        for (int e = 0; e < PER; e++) {
            value[e] = value[e] + add[e] * factor;
        }
    }
    cluster_leave(); /* all blocks of the cluster run */
    if (parts) {
        int32_t head = first_head + (int32_t)of;
        int64_t at = ((int64_t)token * a.q_heads + head) * args.parts + part;
        if (head <= last_head && begin < end) {
            copy_floats<PER>(value, args.o + at * DIM + element % DIM);
            if (element % DIM == 0) {
                args.m[at] = sum != 0.0f ? most : float_of(0x7fc00000u);
                args.l[at] = sum;
            }
        }
        return;
    }
    store_at_rank<PER>(&shared.incoming[rank * share + element % share], element / share, value);
    uint32_t to = thread_index() % (DIM / PER);
    if (to < size) {
        store_at_rank<1>(&shared.m[rank][of], to, &most);
        store_at_rank<1>(&shared.l[rank][of], to, &sum);
    }
    cluster_barrier();
#pragma unroll 1
    for (uint32_t e = thread_index(); e < share; e += THREADS) {
        int32_t in_chunk = (int32_t)((rank * share + e) / DIM), head = first_head + in_chunk;
        part_sums sums = {float_of(0xff800000u), 0.0f, false};
        float row = 0.0f;
#pragma unroll 2
        for (uint32_t r = 0; r < size; r++) {
            sums.m = fmaxf(sums.m, shared.m[r][in_chunk]);
        }
#pragma unroll 2
        for (uint32_t r = 0; r < size; r++) {
            float factor = part_factor(shared.m[r][in_chunk], sums.m);
            sums.l = sums.l + shared.l[r][in_chunk] * factor;
            row = row + shared.incoming[r * share + e] * factor;
        }
        sums.any = sums.l != 0.0f;
        if (head <= last_head) {
            store_element(a, token, head, (int32_t)((rank * share + e) % DIM), row, sums);
        }
    }
}

#endif /* OPREG_SM90_TENSOR_ATTENTION_CUH */
