/* SPDX-License-Identifier: MIT
 * test_steps.c - the steps between operators: what each promises on the CPU, and
 *
 *   test_steps PLUGIN MANIFEST_FOLDER
 *
 * that a plugin's device gives the CPU's bits.  Exit status 77 without a device. */
#include "registry_harness.h"

#include <math.h>

#include "formats/formats.h"
#include "formats/side.h"
#include "steps.h"

/* A device with its steps. */
typedef struct place {
    opreg_device device;
    const opreg_device_io *io;
    const opreg_device_steps *steps;
    const opreg_host *host;
} place;

static captured said;
static opreg_registry *registry;
static place cpu, subject; /* subject: the device in question, the CPU without arguments            */
static uint64_t seed = 1;

static uint32_t random_bits(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 32);
}

static float random_float(void) { return (float)(int32_t)random_bits() * 0x1p-30f; }

/* Mostly numbers near 1, sometimes whatever a float can be. */
static void fill(float *x, int64_t count, int wild) {
    for (int64_t i = 0; i < count; i++) {
        x[i] = wild && random_bits() % 16 == 0 ? float_of(random_bits()) : random_float();
    }
}

static place place_of(const opreg_device *device) {
    place p = {.device = *device};
    assert_works(opreg_device_io_get(registry, device, &p.io, &p.host));
    assert_works(opreg_device_steps_get(registry, device, &p.steps, &p.host));
    return p;
}

/* Memory of the subject with the bytes of host memory. */
static void *up(const void *from, uint64_t bytes) {
    void *to = NULL;
    assert_works(subject.io->alloc(subject.host, &subject.device, bytes, &to));
    assert_works(subject.io->to_device(subject.host, &subject.device, to, from, bytes, NULL));
    return to;
}

static void down(void *to, void *from, uint64_t bytes) {
    assert_works(subject.io->to_host(subject.host, &subject.device, to, from, bytes, NULL));
    subject.io->free(subject.host, &subject.device, from);
}

static void drop(void *memory) { subject.io->free(subject.host, &subject.device, memory); }

#define ON(where, name, args) assert_works((where).steps->name((where).host, &(where).device, args, NULL))

static void assert_same(const float *got, const float *want, int64_t count, const char *what) {
    for (int64_t i = 0; i < count; i++) {
        if (bits_of(got[i]) != bits_of(want[i]) && !(isnan(got[i]) && isnan(want[i]))) {
            fail_msg("%s: element %d is %a, not %a", what, (int)i, (double)got[i],
                     (double)want[i]);
        }
    }
}

/* ---- norm --------------------------------------------------------------------------------------- */

enum { MOST = 3 * 1500 };

static void norm_case(int64_t rows, int64_t n, int with_delta, int with_weight, int wild) {
    float x[MOST], delta[MOST], w[MOST], dw[MOST], y[MOST], got_x[MOST], got_y[MOST];
    opreg_step_norm a = {.struct_size = sizeof a, .epsilon = 1e-6f, .rows = rows, .n = n,
                         .x_rows = rows};
    opreg_step_norm b = a;
    uint64_t bytes = (uint64_t)(rows * n) * 4;
    void *d_delta, *d_w, *d_dw;
    fill(x, rows * n, wild);
    fill(delta, rows * n, wild);
    fill(w, n, 0);
    fill(dw, n, 0);
    memset(y, 0, sizeof y);
    b.x = up(x, bytes);
    b.y = up(y, bytes);
    d_delta = up(delta, bytes);
    d_w = up(w, (uint64_t)n * 4);
    d_dw = up(dw, (uint64_t)n * 4);
    a.x = x;
    a.y = y;
    a.weight = w;
    b.weight = d_w;
    if (with_delta) {
        a.delta = delta;
        b.delta = d_delta;
        a.delta_weight = with_weight ? dw : NULL;
        b.delta_weight = with_weight ? d_dw : NULL;
    }
    ON(cpu, norm, &a);
    ON(subject, norm, &b);
    down(got_x, b.x, bytes);
    down(got_y, b.y, bytes);
    drop(d_delta);
    drop(d_w);
    drop(d_dw);
    assert_same(got_x, x, rows * n, "x");
    assert_same(got_y, y, rows * n, "y");
}

static void norms_have_the_cpus_bits(void **state) {
    static const int64_t lengths[] = {1, 7, 8, 9, 64, 255, 256, 257, 576, 1500};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        norm_case(1, lengths[i], 0, 0, 0);
        norm_case(3, lengths[i], 1, 0, 0);
        norm_case(2, lengths[i], 1, 1, i % 2 == 1);
    }
}

static void rows_of_an_index_are_normed_and_no_row_is_zeros(void **state) {
    float x[4 * 40], w[40], y[3 * 40], want[40];
    int32_t index[3] = {2, 4, -1};
    opreg_step_norm a = {.struct_size = sizeof a, .epsilon = 1e-5f, .rows = 3, .n = 40, .x_rows = 4};
    opreg_step_norm one = {.struct_size = sizeof one, .epsilon = 1e-5f, .rows = 1, .n = 40,
                           .x = &x[80], .x_rows = 1, .weight = w, .y = want};
    void *d_w, *d_index;
    (void)state;
    fill(x, 160, 0);
    fill(w, 40, 0);
    fill(y, 120, 0);
    a.x = up(x, sizeof x);
    a.y = up(y, sizeof y);
    a.weight = d_w = up(w, sizeof w);
    a.index = d_index = up(index, sizeof index);
    ON(cpu, norm, &one);
    ON(subject, norm, &a);
    drop(a.x);
    down(y, a.y, sizeof y);
    drop(d_w);
    drop(d_index);
    assert_same(y, want, 40, "row 0");
    for (int i = 40; i < 120; i++) {
        assert_true(bits_of(y[i]) == 0);
    }
}

/* The sum of squares is the product of the row with itself as F32 weights. */
static void squares_fold_like_a_dot_with_f32_weights(void **state) {
    enum { N = 1000 };
    float x[N], y[N], ones[N], sum = 0;
    opreg_matmul_bt_quant problem = {.struct_size = sizeof problem, .x_dtype = OPREG_F32,
                                     .b_dtype = OPREG_F32, .y_dtype = OPREG_F32, .m = 1, .n = 1,
                                     .k = N, .x_stride = N, .y_stride = 1};
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_F32, .experts = 1, .n = 1,
                              .k = N, .data = {x, sizeof x}};
    opreg_buf bufs[2] = {{&sum, sizeof sum}, {x, sizeof x}};
    opreg_step_norm a = {.struct_size = sizeof a, .epsilon = 1e-6f, .rows = 1, .n = N, .x = x,
                         .x_rows = 1, .weight = ones, .y = y};
    opreg_plan *plan;
    opreg_weight *weight;
    const opreg_weight *weights[1];
    opreg_args args = {.struct_size = sizeof args, .num_bufs = 2, .bufs = bufs, .weights = weights,
                       .num_weights = 1};
    (void)state;
    for (int i = 0; i < N; i++) {
        ones[i] = 1.0f;
    }
    assert_works(opreg_plan_create(registry, &cpu.device, OPREG_OP_MATMUL_BT_QUANT, &problem, &plan));
    assert_works(opreg_weight_create(registry, &cpu.device, &desc, &weight));
    weights[0] = weight;
    args.workspace = (opreg_buf){aligned_alloc(256, (opreg_plan_workspace(plan) + 511) / 256 * 256),
                                 opreg_plan_workspace(plan) + 256};
    for (int row = 0; row < 100; row++) { /* another order shows in some of them */
        float factor;
        fill(x, N, 0);
        assert_works(opreg_plan_run(plan, &args));
        ON(cpu, norm, &a);
        factor = 1.0f / sqrtf(sum / (float)N + 1e-6f);
        for (int i = 0; i < N; i++) {
            assert_true(bits_of(y[i]) == bits_of(x[i] * factor));
        }
    }
    free(args.workspace.ptr);
    opreg_weight_destroy(weight);
    opreg_plan_destroy(plan);
}

/* ---- heads -------------------------------------------------------------------------------------- */

enum { TOKENS = 5, HQ = 6, HK = 2, POSITIONS = 9, SLOTS = 16 };

static void heads_case(int32_t dim, int32_t pairs, int32_t halves, uint32_t dtype, int normed) {
    static float q[TOKENS * HQ * 128], k[TOKENS * HK * 128], v[TOKENS * HK * 128];
    static float got_q[TOKENS * HQ * 128], got_k[TOKENS * HK * 128];
    static float cosines[POSITIONS * 64], sines[POSITIONS * 64], w[128];
    static uint8_t kc[SLOTS * HK * 128 * 4], vc[SLOTS * HK * 128 * 4];
    static uint8_t got_kc[sizeof kc], got_vc[sizeof vc];
    const int32_t positions[TOKENS] = {0, 8, 9, -1, 3}; /* the third and fourth have no angles */
    int64_t slot = (int64_t)HK * dim;
    const int64_t places[TOKENS] = {slot, SLOTS * slot - slot, 3 * slot, 4 * slot,
                                    SLOTS * slot - slot + 1}; /* the last does not fit */
    opreg_step_heads a = {.struct_size = sizeof a, .kv_dtype = dtype, .tokens = TOKENS,
                          .q_heads = HQ, .kv_heads = HK, .head_dim = dim, .pairs = pairs,
                          .halves = halves, .positions_most = POSITIONS, .epsilon = 1e-6f,
                          .cache_elements = SLOTS * slot, .head_stride = dim};
    opreg_step_heads b = a;
    void *d_v, *d_cos, *d_sin, *d_w, *d_positions, *d_places;
    fill(q, TOKENS * HQ * dim, 1);
    fill(k, TOKENS * HK * dim, 0);
    fill(v, TOKENS * HK * dim, 1);
    fill(cosines, POSITIONS * pairs, 0);
    fill(sines, POSITIONS * pairs, 0);
    fill(w, dim, 0);
    memset(kc, 0x55, sizeof kc);
    memset(vc, 0x55, sizeof vc);
    b.q = up(q, sizeof q);
    b.k = up(k, sizeof k);
    b.v = d_v = up(v, sizeof v);
    b.cosines = d_cos = up(cosines, sizeof cosines);
    b.sines = d_sin = up(sines, sizeof sines);
    b.q_weight = b.k_weight = d_w = up(w, sizeof w);
    b.positions = d_positions = up(positions, sizeof positions);
    b.places = d_places = up(places, sizeof places);
    b.k_cache = up(kc, sizeof kc);
    b.v_cache = up(vc, sizeof vc);
    a.q = q;
    a.k = k;
    a.v = v;
    a.cosines = cosines;
    a.sines = sines;
    a.q_weight = a.k_weight = w;
    a.positions = positions;
    a.places = places;
    a.k_cache = kc;
    a.v_cache = vc;
    if (!normed) {
        a.q_weight = a.k_weight = b.q_weight = b.k_weight = NULL;
    }
    ON(cpu, heads, &a);
    ON(subject, heads, &b);
    down(got_q, b.q, sizeof q);
    down(got_k, b.k, sizeof k);
    down(got_kc, b.k_cache, sizeof kc);
    down(got_vc, b.v_cache, sizeof vc);
    drop(d_v);
    drop(d_cos);
    drop(d_sin);
    drop(d_w);
    drop(d_positions);
    drop(d_places);
    assert_same(got_q, q, TOKENS * HQ * dim, "q");
    assert_same(got_k, k, TOKENS * HK * dim, "k");
    assert_memory_equal(got_kc, kc, sizeof kc);
    assert_memory_equal(got_vc, vc, sizeof vc);
    for (int64_t i = 0; i < SLOTS; i++) { /* slots of tokens that are stored, and no others */
        uint64_t bytes = (uint64_t)slot * (dtype == OPREG_F32 ? 4 : 2);
        int touched = 0;
        for (uint64_t j = 0; j < bytes; j++) {
            touched |= kc[(uint64_t)i * bytes + j] != 0x55;
        }
        assert_int_equal(touched, i == 1 || i == SLOTS - 1);
    }
}

static void heads_have_the_cpus_bits_and_store_only_what_fits(void **state) {
    (void)state;
    heads_case(128, 64, 1, OPREG_F16, 1);
    heads_case(128, 64, 0, OPREG_BF16, 0);
    heads_case(64, 16, 1, OPREG_F32, 1);
    heads_case(96, 48, 0, OPREG_F16, 0);
}

static void a_pair_is_rotated_by_its_position(void **state) {
    float q[4] = {1, 2, 3, 4}, k[4] = {1, 0, 0, 0}, v[4] = {5, 6, 7, 8};
    float cosines[4] = {1, 1, 0, 1}, sines[4] = {0, 0, 1, 0}, kc[4], vc[4];
    int32_t position = 1;
    int64_t at = 0;
    opreg_step_heads a = {.struct_size = sizeof a, .kv_dtype = OPREG_F32, .tokens = 1, .q_heads = 1,
                          .kv_heads = 1, .head_dim = 4, .pairs = 2, .halves = 1,
                          .positions_most = 2, .q = q, .k = k, .v = v, .cosines = cosines,
                          .sines = sines, .positions = &position, .places = &at, .k_cache = kc,
                          .v_cache = vc, .cache_elements = 4, .head_stride = 4};
    const float turned[4] = {-3, 2, 1, 4};
    (void)state;
    ON(cpu, heads, &a);
    assert_same(q, turned, 4, "q");
    assert_true(kc[0] == 0 && kc[2] == 1 && vc[3] == 8);
    position = 0;
    a.halves = 0;
    q[0] = 1;
    ON(cpu, heads, &a);
    assert_true(q[0] == 1 && q[1] == 2);
}

/* ---- choices ------------------------------------------------------------------------------------ */

static void experts_case(int64_t tokens, int32_t experts, int32_t top_k, int kind) {
    static float x[70 * 300], w[70 * 8], got_w[70 * 8];
    static int32_t ids[70 * 8], got_ids[70 * 8];
    opreg_step_experts a = {.struct_size = sizeof a, .tokens = tokens, .experts = experts,
                            .top_k = top_k, .logits = x, .ids = ids, .weights = w};
    opreg_step_experts b = a;
    for (int64_t i = 0; i < tokens * experts; i++) {
        x[i] = kind == 0 ? 4 * random_float() : (float)(random_bits() % 3); /* 1: many ties */
    }
    if (kind == 2) {
        x[experts / 2] = float_of(0x7fc00000u);
    }
    b.logits = up(x, (uint64_t)(tokens * experts) * 4);
    b.ids = up(ids, sizeof ids);
    b.weights = up(w, sizeof w);
    ON(cpu, experts, &a);
    ON(subject, experts, &b);
    drop(b.logits);
    down(got_ids, b.ids, sizeof ids);
    down(got_w, b.weights, sizeof w);
    assert_memory_equal(got_ids, ids, (size_t)(tokens * top_k) * 4);
    assert_same(got_w, w, tokens * top_k, "weights");
    for (int64_t i = 0; i < tokens * top_k; i++) {
        assert_true(ids[i] >= 0 && ids[i] < experts);
    }
    for (int32_t i = 1; i < top_k; i++) {
        assert_true(ids[0] != ids[i]);
    }
}

static void experts_have_the_cpus_bits(void **state) {
    (void)state;
    experts_case(1, 8, 2, 0);
    experts_case(70, 128, 8, 0);
    experts_case(9, 33, 4, 1);
    experts_case(3, 300, 8, 2);
    experts_case(2, 1, 1, 0);
}

static void the_likeliest_experts_are_taken_and_share_one(void **state) {
    float x[4] = {0, 3, 1, 3}, w[2];
    int32_t ids[2];
    opreg_step_experts a = {.struct_size = sizeof a, .tokens = 1, .experts = 4, .top_k = 2,
                            .logits = x, .ids = ids, .weights = w};
    (void)state;
    ON(cpu, experts, &a);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    assert_true(w[0] == 0.5f && w[1] == 0.5f);
}

static void the_largest_is_the_first_of_equals_and_never_nan(void **state) {
    static float x[3 * 3000];
    int32_t ids[3] = {-1, -1, -1}, got[3];
    opreg_step_argmax a = {.struct_size = sizeof a, .rows = 3, .n = 3000, .x = x, .ids = ids};
    opreg_step_argmax b = a;
    void *d_x;
    (void)state;
    fill(x, 9000, 0);
    x[0] = float_of(0x7fc00000u);
    x[700] = x[2999] = x[1200] = 7;
    for (int i = 3000; i < 6000; i++) {
        x[i] = float_of(0xffc00000u);
    }
    for (int i = 6000; i < 9000; i++) {
        x[i] = i % 2 ? -0.0f : 0.0f;
    }
    b.x = d_x = up(x, sizeof x);
    b.ids = up(ids, sizeof ids);
    ON(cpu, argmax, &a);
    ON(subject, argmax, &b);
    drop(d_x);
    down(got, b.ids, sizeof got);
    assert_memory_equal(got, ids, sizeof ids);
    assert_int_equal(ids[0], 700);
    assert_int_equal(ids[1], 0);
    assert_int_equal(ids[2], 0);
}

/* ---- values ------------------------------------------------------------------------------------- */

static void values_have_the_cpus_bits(void **state) {
    enum { COUNT = 1000 };
    static float gate[COUNT], up_[COUNT], y[COUNT], got[COUNT];
    (void)state;
    for (uint32_t kind = OPREG_GLU_SILU; kind <= OPREG_GLU_SWIGLU_OAI; kind++) {
        opreg_step_glu a = {.struct_size = sizeof a, .glu = kind, .glu_alpha = 1.7f,
                            .glu_limit = 0.5f, .count = COUNT, .gate = gate, .up = up_, .y = y};
        opreg_step_glu b = a;
        void *d_gate, *d_up;
        fill(gate, COUNT, 1);
        fill(up_, COUNT, 1);
        b.gate = d_gate = up(gate, sizeof gate);
        b.up = d_up = up(up_, sizeof up_);
        b.y = up(y, sizeof y);
        ON(cpu, glu, &a);
        ON(subject, glu, &b);
        down(got, b.y, sizeof got);
        drop(d_gate);
        drop(d_up);
        assert_same(got, y, COUNT, "glu");
        assert_true(isnan(y[0]) ||
                    bits_of(y[0]) == bits_of(canonical_glu(kind, gate[0], up_[0], 1.7f, 0.5f)));
    }
    {
        opreg_step_cap a = {.struct_size = sizeof a, .cap = 30.0f, .count = COUNT, .x = y};
        opreg_step_cap b = a;
        fill(y, COUNT, 1);
        b.x = up(y, sizeof y);
        ON(cpu, cap, &a);
        ON(subject, cap, &b);
        down(got, b.x, sizeof got);
        assert_same(got, y, COUNT, "cap");
        assert_true(isnan(y[0]) || (y[0] <= 30.0f && y[0] >= -30.0f));
    }
}

/* A table of 4 rows of every format, of random blocks; an id beyond it gives zeros. */
static void gathered_rows_are_decoded_weights(void **state) {
    enum { K = 512, ROWS = 5 };
    static float y[ROWS * K], got[ROWS * K];
    static uint8_t blocks[4 * K * 4];
    static opreg_side side; /* read as it is: any record will do */
    const int32_t ids[ROWS] = {3, 0, 4, -1, 2};
    int32_t *d_ids = up(ids, sizeof ids);
    (void)state;
    side.tensor_scale = 1.5f;
    for (int i = 0; i < 16; i++) {
        side.levels[i] = random_float();
    }
    for (size_t f = 0; f < format_count(); f++) {
        const format_info *format = format_at(f);
        int64_t row_bytes = K / format->values * format->bytes;
        opreg_weight_view view = {.struct_size = sizeof view, .format = format->id, .experts = 1,
                                  .n = 4, .k = K, .row_bytes = row_bytes, .data = blocks,
                                  .bytes = (uint64_t)(4 * row_bytes), .side = &side};
        opreg_weight_view seen = view;
        opreg_step_gather a = {.struct_size = sizeof a, .scale = 3.0f, .table = &view, .ids = ids,
                               .y = y, .rows = ROWS};
        opreg_step_gather b = a;
        void *d_blocks, *d_side;
        side.dialect = OPREG_DIALECT_DEFAULT;
        if (format->id == OPREG_ROCMFP2) {
            side.dialect = OPREG_DIALECT_ROCMFP2_SIGNBIT;
        } else if (format->id == OPREG_NVFP4) {
            side.dialect = OPREG_DIALECT_NVFP4_HOST;
        }
        for (size_t i = 0; i < sizeof blocks; i++) {
            blocks[i] = (uint8_t)(random_bits() >> 8);
        }
        seen.data = d_blocks = up(blocks, sizeof blocks);
        seen.side = d_side = up(&side, sizeof side);
        b.table = &seen;
        b.ids = d_ids;
        b.y = up(y, sizeof y);
        ON(cpu, gather, &a);
        ON(subject, gather, &b);
        down(got, b.y, sizeof got);
        drop(d_blocks);
        drop(d_side);
        assert_same(got, y, ROWS * K, format->name);
        for (int i = 0; i < K; i++) {
            float w = format->value(blocks + 3 * row_bytes + i / format->values * format->bytes,
                                    i % format->values, &side);
            w = (format->id == OPREG_NVFP4 ? w * 1.5f : w) * 3.0f;
            assert_true(bits_of(w) == bits_of(y[i]) || (isnan(w) && isnan(y[i])));
            assert_true(bits_of(y[2 * K + i]) == 0 && bits_of(y[3 * K + i]) == 0);
        }
    }
    drop(d_ids);
}

/* ---- the difference of two results -------------------------------------------------------------- */

static opreg_difference sum_of(const opreg_difference *parts) {
    opreg_difference sum = {0};
    for (uint32_t i = 0; i < OPREG_DIFFERENCE_PARTS; i++) {
        const opreg_difference *p = &parts[i];
        if (p->wrong > 0 && (sum.wrong == 0 || p->row < sum.row ||
                             (p->row == sum.row && p->column < sum.column))) {
            sum.row = p->row;
            sum.column = p->column;
            sum.got = p->got;
            sum.want = p->want;
            sum.output = p->output;
        }
        sum.checked += p->checked;
        sum.wrong += p->wrong;
        sum.largest = p->largest > sum.largest ? p->largest : sum.largest;
        sum.error += p->error;
        sum.energy += p->energy;
        sum.store += p->store;
    }
    return sum;
}

static opreg_difference compared(uint32_t dtype, uint32_t element, int64_t rows, int64_t length,
                                 int64_t stride, const void *got, const void *want) {
    opreg_difference parts[OPREG_DIFFERENCE_PARTS] = {{0}};
    uint64_t bytes = (uint64_t)(rows * stride) * element;
    void *d_got = up(got, bytes), *d_want = up(want, bytes);
    opreg_step_compare a = {.struct_size = sizeof a, .dtype = dtype, .element = element, .output = 3,
                            .rows = rows, .length = length, .stride = stride, .got = d_got,
                            .want = d_want, .parts = up(parts, sizeof parts)};
    ON(subject, compare, &a);
    down(parts, a.parts, sizeof parts);
    drop(d_got);
    drop(d_want);
    return sum_of(parts);
}

static void a_difference_has_its_first_element_and_its_sums(void **state) {
    enum { ROWS = 7, LENGTH = 300, STRIDE = 310 };
    static float got[ROWS * STRIDE], want[ROWS * STRIDE];
    opreg_difference d;
    double energy = 0;
    (void)state;
    fill(want, ROWS * STRIDE, 0);
    memcpy(got, want, sizeof got);
    for (int i = 0; i < ROWS * STRIDE; i++) {
        energy += i % STRIDE < LENGTH ? (double)want[i] * (double)want[i] : 0;
    }
    d = compared(OPREG_F32, 4, ROWS, LENGTH, STRIDE, got, want);
    assert_true(d.wrong == 0 && d.checked == ROWS * LENGTH && d.error == 0);
    assert_true(fabs(d.energy - energy) < 1e-9 * energy);
    want[0] = float_of(0x7fc00000u);
    got[0] = float_of(0xffc00001u); /* any NaN is any NaN */
    got[LENGTH] += 1;               /* between two rows: nobody's */
    got[2 * STRIDE + 299] = want[2 * STRIDE + 299] + 0.5f;
    got[6 * STRIDE + 1] = want[6 * STRIDE + 1] - 4;
    d = compared(OPREG_F32, 4, ROWS, LENGTH, STRIDE, got, want);
    assert_true(d.wrong == 2 && d.row == 2 && d.column == 299 && d.output == 3);
    assert_true(d.got == bits_of(got[2 * STRIDE + 299]) && d.want == bits_of(want[2 * STRIDE + 299]));
    assert_true(fabs(d.largest - 4) < 1e-6 && fabs(d.error - 16.25) < 1e-5);
    got[5] = float_of(0x7f800000u);
    d = compared(OPREG_F32, 4, ROWS, LENGTH, STRIDE, got, want);
    assert_true(isinf(d.largest) && d.row == 0 && d.column == 5);
}

static void halves_and_integers_are_compared_as_what_they_are(void **state) {
    uint16_t got[4] = {0x3c00, 0x0001, 0x8000, 0x7c00}, want[4] = {0x3c00, 0x0001, 0x0000, 0x7c00};
    int8_t a[5] = {1, -2, 3, -4, 5}, b[5] = {1, -2, 3, -5, 5};
    opreg_difference d = compared(OPREG_F16, 2, 1, 4, 4, got, want);
    (void)state;
    assert_true(d.wrong == 1 && d.column == 2 && d.got == 0x8000 && d.largest == 0);
    /* half an ulp: 2^-11 of 1 and, three times, at least 2^-25; none of Inf */
    assert_true(d.store == 0x1p-22 + 2 * 0x1p-50);
    d = compared(OPREG_BF16, 2, 1, 1, 1, (const uint16_t[]){0x3f80}, (const uint16_t[]){0x3f80});
    assert_true(d.wrong == 0 && d.store == 0x1p-16);
    d = compared(0, 1, 1, 5, 5, a, b);
    assert_true(d.wrong == 1 && d.column == 3 && d.largest == 1 && d.got == 0xfc);
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void what_the_host_can_know_is_refused(void **state) {
    float x[8] = {0};
    opreg_step_norm norm = {.struct_size = sizeof norm - 8, .rows = 1, .n = 8, .x = x, .x_rows = 1,
                            .weight = x, .y = x};
    opreg_step_argmax argmax = {.struct_size = sizeof argmax, .rows = 1, .n = 0, .x = x};
    opreg_step_cap cap = {.struct_size = sizeof cap, .cap = 0.0f, .count = 8, .x = x};
    (void)state;
    assert_failed(subject.steps->norm(subject.host, &subject.device, &norm, NULL), OPREG_E_ARG,
                  "struct_size");
    norm.struct_size = sizeof norm;
    norm.y = NULL;
    assert_failed(subject.steps->norm(subject.host, &subject.device, &norm, NULL), OPREG_E_ARG,
                  "weight and y");
    assert_failed(subject.steps->argmax(subject.host, &subject.device, &argmax, NULL), OPREG_E_ARG,
                  "n not in 1");
    assert_failed(subject.steps->cap(subject.host, &subject.device, &cap, NULL), OPREG_E_ARG,
                  "cap is not above 0");
}

#define REFUSED(step, args, text)                                                                  \
    assert_failed(subject.steps->step(subject.host, &subject.device, (args), NULL), OPREG_E_ARG, text)

static void missing_arguments_are_refused(void **state) {
    (void)state;
    REFUSED(gather, NULL, "gather: struct_size");
    REFUSED(norm, NULL, "norm: struct_size");
    REFUSED(heads, NULL, "heads: struct_size");
    REFUSED(experts, NULL, "experts: struct_size");
    REFUSED(glu, NULL, "glu: struct_size");
    REFUSED(cap, NULL, "cap: struct_size");
    REFUSED(argmax, NULL, "argmax: struct_size");
    REFUSED(compare, NULL, "compare: struct_size");
}

static void every_product_of_sizes_is_refused(void **state) {
    const int64_t big = INT64_MAX / 4;
    float x[1] = {0};
    int32_t ids[1] = {0};
    int64_t places[1] = {0};
    opreg_difference parts[OPREG_DIFFERENCE_PARTS];
    opreg_weight_view table = {.struct_size = sizeof table, .format = OPREG_F32, .experts = 1, .n = 1,
                               .k = big, .data = x};
    opreg_step_gather gather = {.struct_size = sizeof gather, .table = &table, .ids = ids, .y = x,
                                .rows = 9};
    opreg_step_norm norm = {.struct_size = sizeof norm, .rows = big, .n = 9, .x = x, .x_rows = big,
                            .weight = x, .y = x};
    const opreg_step_heads right = {.struct_size = sizeof right, .kv_dtype = OPREG_F32, .tokens = 1,
                                    .q_heads = 1, .kv_heads = 2, .head_dim = 2, .pairs = 1,
                                    .positions_most = 1, .q = x, .k = x, .v = x, .cosines = x,
                                    .sines = x, .positions = ids, .places = places, .k_cache = x,
                                    .v_cache = x};
    opreg_step_heads heads = right;
    opreg_step_experts experts = {.struct_size = sizeof experts, .tokens = big, .experts = 9,
                                  .top_k = 1, .logits = x, .ids = ids, .weights = x};
    opreg_step_argmax argmax = {.struct_size = sizeof argmax, .rows = big, .n = 9, .x = x, .ids = ids};
    opreg_step_compare compare = {.struct_size = sizeof compare, .dtype = OPREG_F32, .element = 4,
                                  .rows = 9, .length = 1, .stride = big, .got = x, .want = x,
                                  .parts = parts};
    (void)state;
    REFUSED(gather, &gather, "overflow 64 bits");
    REFUSED(norm, &norm, "overflow 64 bits");
    norm.rows = 1;
    norm.index = ids;
    REFUSED(norm, &norm, "overflow 64 bits"); /* x_rows */
    heads.tokens = big;
    REFUSED(heads, &heads, "overflow 64 bits");
    heads.q_heads = 0;
    REFUSED(heads, &heads, "overflow 64 bits"); /* those of k */
    heads = right;
    heads.head_stride = INT64_MAX; /* from one head to the next */
    REFUSED(heads, &heads, "overflow 64 bits");
    heads.tokens = 0;
    REFUSED(heads, &heads, "overflow 64 bits");
    REFUSED(experts, &experts, "overflow 64 bits");
    REFUSED(argmax, &argmax, "overflow 64 bits");
    REFUSED(compare, &compare, "overflow 64 bits");
}

/* A place is data of the device: any number stores nothing or what fits. */
static void a_place_at_the_end_of_numbers_stores_nothing(void **state) {
    float q[2] = {1, 2}, k[4] = {1, 2, 3, 4}, v[4] = {5, 6, 7, 8}, one[1] = {1}, k_cache[4] = {0},
          v_cache[4] = {0};
    static const float zeros[4] = {0};
    int32_t position = 0;
    int64_t at = INT64_MAX;
    opreg_step_heads heads = {.struct_size = sizeof heads, .kv_dtype = OPREG_F32, .tokens = 1,
                              .q_heads = 1, .kv_heads = 2, .head_dim = 2, .pairs = 1, .positions_most = 1,
                              .q = q, .k = k, .v = v, .cosines = one, .sines = zeros,
                              .positions = &position, .places = &at, .k_cache = k_cache,
                              .v_cache = v_cache, .cache_elements = 4, .head_stride = 2};
    (void)state;
    assert_works(cpu.steps->heads(cpu.host, &cpu.device, &heads, NULL));
    assert_memory_equal(k_cache, zeros, sizeof zeros);
    assert_memory_equal(v_cache, zeros, sizeof zeros);
    at = INT64_MIN;
    assert_works(cpu.steps->heads(cpu.host, &cpu.device, &heads, NULL));
    assert_memory_equal(k_cache, zeros, sizeof zeros);
    at = 0;
    assert_works(cpu.steps->heads(cpu.host, &cpu.device, &heads, NULL));
    assert_memory_equal(v_cache, v, sizeof v);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_have_the_cpus_bits),
        cmocka_unit_test(rows_of_an_index_are_normed_and_no_row_is_zeros),
        cmocka_unit_test(squares_fold_like_a_dot_with_f32_weights),
        cmocka_unit_test(heads_have_the_cpus_bits_and_store_only_what_fits),
        cmocka_unit_test(a_pair_is_rotated_by_its_position),
        cmocka_unit_test(experts_have_the_cpus_bits),
        cmocka_unit_test(the_likeliest_experts_are_taken_and_share_one),
        cmocka_unit_test(the_largest_is_the_first_of_equals_and_never_nan),
        cmocka_unit_test(values_have_the_cpus_bits),
        cmocka_unit_test(gathered_rows_are_decoded_weights),
        cmocka_unit_test(a_difference_has_its_first_element_and_its_sums),
        cmocka_unit_test(halves_and_integers_are_compared_as_what_they_are),
        cmocka_unit_test(what_the_host_can_know_is_refused),
        cmocka_unit_test(missing_arguments_are_refused),
        cmocka_unit_test(every_product_of_sizes_is_refused),
        cmocka_unit_test(a_place_at_the_end_of_numbers_stores_nothing),
    };
    opreg_config config = capture_config(&said, OPREG_CF_NO_ENV);
    opreg_device rows[2];
    int failed;
    if (opreg_create(&config, &registry) != OPREG_OK ||
        (argc == 3 && (opreg_discover(registry, argv[2]) != OPREG_OK ||
                       opreg_enable(registry, argv[1], "on") != OPREG_OK))) {
        fprintf(stderr, "%s\n", opreg_last_error());
        return 1;
    }
    if (opreg_devices(registry, rows, sizeof rows[0], 2) < 2 && argc == 3) {
        printf("skipped: plugin %s finds no device here\n", argv[1]);
        opreg_destroy(registry);
        return 77;
    }
    cpu = place_of(&rows[0]);
    subject = argc == 3 ? place_of(&rows[1]) : cpu;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    opreg_destroy(registry);
    return failed;
}
