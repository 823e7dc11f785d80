/* SPDX-License-Identifier: MIT
 * select.h - ranks every variant of an operator on a device, each with its verdict and reason. */
#ifndef OPREG_SELECT_H
#define OPREG_SELECT_H

#include "registry.h"

#define NO_KERNEL ((size_t)-1)

typedef struct candidate {
    plugin_entry *entry;
    size_t kernel;            /* in entry->kernels; NO_KERNEL: a plugin that was never opened       */
    const opreg_device *dev;  /* the plugin's row of the device; null for NO_KERNEL                 */
    opreg_status verdict;     /* OPREG_OK, OPREG_E_UNSUPPORTED or OPREG_E_DISABLED                  */
    int on;                   /* its flags admit it                                                 */
    int lists;                /* it is for the problem's formats (or its operator has no weight)    */
    int32_t rank;             /* 0: the one a plan takes; -1: not eligible                          */
    uint32_t layouts[PROBLEM_MAX_WEIGHTS]; /* of each weight, resolved                              */
    uint64_t workspace;
    char reason[192];
} candidate;

/* Every candidate, best first; *rows is freed by the caller.  The problem is loaded and checked.
 * Call under the lock.  E_NOMEM. */
opreg_status select_rank(opreg_registry *reg, const opreg_device *dev, opreg_op op,
                         const problem_any *problem, candidate **rows, size_t *count);

/* Judges one variant, its flag left aside: OPREG_OK or E_UNSUPPORTED with the reason in *out. */
opreg_status select_judge(plugin_entry *entry, size_t kernel, const opreg_device *dev, opreg_op op,
                          const problem_any *problem, candidate *out);

/* Writes resolved layouts into the problem. */
void select_set_layouts(opreg_op op, problem_any *problem,
                        const uint32_t layouts[PROBLEM_MAX_WEIGHTS]);

/* The layout row of an open plugin; null when it has none of this id. */
const opreg_layout *select_layout(const plugin_entry *entry, uint32_t id);

/* Why no candidate is eligible: E_DISABLED or E_UNSUPPORTED with the text. */
opreg_status select_refusal(const opreg_device *dev, opreg_op op, const candidate *rows,
                            size_t count);

/* OPREG_OK, or E_STRICT when rows[0] is a baseline although a switched-on variant lists the problem. */
opreg_status select_strict(opreg_op op, const candidate *rows, size_t count);

/* "cuda-sm60/q4_k_gemv". */
void candidate_name(const candidate *row, char *out, size_t cap);

#endif /* OPREG_SELECT_H */
