/* SPDX-License-Identifier: MIT
 * fuzz_route.c - routes built from any ids, and stages that read any bytes as a route, touch only
 * what is theirs. */
#include "fuzz.h"

typedef struct moe_case {
    opreg_registry *reg;
    opreg_device dev;
    int32_t tokens, top_k, experts, n, k;
    void *route;
    uint64_t route_bytes;
} moe_case;

/* Runs an operator with its first num_bufs buffers of the problem's own sizes; given[i] where not
 * null is the buffer's bytes.  Returns 1 when there was a plan for the problem. */
static int run_stage(moe_case *c, fuzz_input *in, opreg_op op, const char *text, uint32_t num_bufs,
                     void *const *given, const opreg_weight *const *weights, uint32_t num_weights) {
    unsigned char problem[256];
    opreg_buf bufs[8] = {{NULL, 0}};
    opreg_plan *plan = NULL;
    opreg_args args = {.struct_size = sizeof args, .num_bufs = num_bufs, .bufs = bufs,
                       .weights = weights, .num_weights = num_weights};
    void *workspace;
    FUZZ_CHECK(opreg_problem_parse(op, text, problem) == OPREG_OK);
    FUZZ_CHECK(opreg_problem_check(op, problem) == OPREG_OK);
    FUZZ_CHECK(opreg_plan_create(c->reg, &c->dev, op, problem, &plan) == OPREG_OK);
    for (uint32_t i = 0; i < num_bufs; i++) {
        FUZZ_CHECK(opreg_problem_buffer(op, problem, i, &bufs[i].bytes) == OPREG_OK);
        if (bufs[i].bytes > 0) {
            bufs[i].ptr = given[i] != NULL ? given[i] : fuzz_bytes(in, (size_t)bufs[i].bytes);
        }
    }
    args.workspace.bytes = opreg_plan_workspace(plan);
    workspace = fuzz_exact((size_t)args.workspace.bytes);
    args.workspace.ptr = args.workspace.bytes > 0 ? workspace : NULL;
    FUZZ_CHECK(opreg_plan_run(plan, &args) == OPREG_OK);
    for (uint32_t i = 0; i < num_bufs; i++) {
        if (given[i] == NULL) {
            free(bufs[i].ptr);
        }
    }
    free(workspace);
    opreg_plan_destroy(plan);
    return 1;
}

static opreg_weight *make_weight(moe_case *c, int32_t n, int32_t k, void **blocks) {
    opreg_weight *weight = NULL;
    opreg_weight_desc desc = {.struct_size = sizeof desc, .format = OPREG_Q8_0, .n = n, .k = k};
    desc.experts = c->experts;
    desc.data.bytes = (uint64_t)c->experts * (uint64_t)n * (uint64_t)(k / 32) * 34;
    *blocks = fuzz_exact((size_t)desc.data.bytes);
    memset(*blocks, 0x21, (size_t)desc.data.bytes);
    desc.data.ptr = *blocks;
    FUZZ_CHECK(opreg_weight_create(c->reg, &c->dev, &desc, &weight) == OPREG_OK);
    return weight;
}

/* The route of any router's output keeps its promises. */
static void check_route(const moe_case *c) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    const opreg_route_header *header = c->route;
    const uint8_t *base = c->route;
    FUZZ_CHECK(opreg_route_layout_get(c->tokens, c->top_k, c->experts, &layout) == OPREG_OK);
    const int32_t *start = (const void *)(base + layout.group_start);
    const int32_t *expert = (const void *)(base + layout.group_expert);
    const int32_t *dst = (const void *)(base + layout.entry_dst);
    FUZZ_CHECK(header->entries == layout.cap_entries && header->groups <= layout.cap_groups);
    FUZZ_CHECK(start[0] == 0 && start[header->groups] == (int32_t)header->entries);
    for (uint32_t g = 0; g < header->groups; g++) {
        FUZZ_CHECK(start[g] < start[g + 1]);
        FUZZ_CHECK(expert[g] < c->experts && (expert[g] >= 0 || g + 1 == header->groups));
        for (int32_t e = start[g] + 1; e < start[g + 1]; e++) {
            FUZZ_CHECK(dst[e - 1] < dst[e]); /* the order inside a group is kept */
        }
    }
}

static void build_route(moe_case *c, fuzz_input *in) {
    void *const given[4] = {c->route, NULL, NULL, NULL};
    int pairs = fuzz_u8(in) & 1;
    char text[200];
    snprintf(text, sizeof text, "tokens=%d top_k=%d experts=%d form=%s", c->tokens, c->top_k,
             c->experts, pairs ? "pairs" : "topk");
    run_stage(c, in, OPREG_OP_MOE_ROUTE, text, pairs ? 4 : 3, given, NULL, 0);
    check_route(c);
}

static void read_route(moe_case *c, fuzz_input *in) {
    void *const given[5] = {NULL, NULL, c->route, NULL, NULL};
    void *blocks[3];
    opreg_weight *up = make_weight(c, c->n, c->k, &blocks[0]);
    opreg_weight *gate = make_weight(c, c->n, c->k, &blocks[1]);
    opreg_weight *down = make_weight(c, c->k, c->n, &blocks[2]);
    const opreg_weight *const pair[3] = {gate, up, down};
    char text[300];
    snprintf(text, sizeof text, "tokens=%d n=%d k=%d experts=%d top_k=%d b=q8_0 layout=stored rows=%s",
             c->tokens, c->n, c->k, c->experts, c->top_k, fuzz_u8(in) & 1 ? "dst" : "token");
    run_stage(c, in, OPREG_OP_MOE_MATMUL, text, 3, given, &pair[1], 1);
    strcat(text, " glu=silu");
    run_stage(c, in, OPREG_OP_MOE_GLU, text, 3, given, pair, 2);
    snprintf(text, sizeof text, "tokens=%d n=%d k=%d experts=%d top_k=%d b=q8_0 layout=stored",
             c->tokens, c->k, c->n, c->experts, c->top_k);
    run_stage(c, in, OPREG_OP_MOE_DOWN, text, 3, given, &pair[2], 1);
    snprintf(text, sizeof text,
             "tokens=%d hidden=%d inter=%d experts=%d top_k=%d b=q8_0 down=q8_0 layout=stored "
             "down_layout=stored glu=silu",
             c->tokens, c->k, c->n, c->experts, c->top_k);
    run_stage(c, in, OPREG_OP_MOE_FFN, text, 4, given, pair, 3);
    opreg_weight_destroy(up);
    opreg_weight_destroy(gate);
    opreg_weight_destroy(down);
    for (int i = 0; i < 3; i++) {
        free(blocks[i]);
    }
}

/* Sizes of any problem are right or refused. */
static void any_layout(fuzz_input *in) {
    opreg_route_layout layout = {.struct_size = sizeof layout};
    int64_t tokens;
    int32_t top_k, experts;
    fuzz_take(in, &tokens, sizeof tokens);
    fuzz_take(in, &top_k, sizeof top_k);
    fuzz_take(in, &experts, sizeof experts);
    if (opreg_route_layout_get(tokens, top_k, experts, &layout) == OPREG_OK) {
        FUZZ_CHECK(layout.cap_entries <= INT32_MAX && layout.bytes >= layout.entry_weight);
        FUZZ_CHECK(layout.group_expert < layout.group_start && layout.group_start < layout.bytes);
        FUZZ_CHECK(layout.bytes - layout.entry_weight >= 4ull * layout.cap_entries);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, size};
    moe_case c = {.n = 32, .k = 32};
    opreg_route_layout layout = {.struct_size = sizeof layout};
    uint8_t what = fuzz_u8(&in) % 8;
    if (what == 0) {
        any_layout(&in);
        return 0;
    }
    c.reg = fuzz_registry(&c.dev);
    c.tokens = fuzz_range(&in, 0, 6);
    c.top_k = fuzz_range(&in, 1, 4);
    c.experts = fuzz_range(&in, c.top_k, 9);
    FUZZ_CHECK(opreg_route_layout_get(c.tokens, c.top_k, c.experts, &layout) == OPREG_OK);
    c.route = what < 4 ? fuzz_exact((size_t)layout.bytes) : fuzz_bytes(&in, (size_t)layout.bytes);
    if (what < 4) {
        build_route(&c, &in);
    }
    if (what > 1) {
        read_route(&c, &in);
    }
    free(c.route);
    return 0;
}
