/* SPDX-License-Identifier: MIT
 * loader.c - dlopen, version negotiation, and a look at every row of a plugin's table before any of
 * it is used. */
#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "error.h"

#define MAX_ROWS 4096u    /* kernels, formats or layouts of one plugin                             */
#define MAX_DEVICES 1024u
#define MAX_FORMAT_IDS 512u

/* The least size of a table row of ABI 1.0: later minors only append. */
#define OLDEST(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

static opreg_status copy_row(void *out, size_t known, size_t oldest, const void *row,
                             const char *plugin, const char *what, uint32_t index) {
    uint32_t size;
    if (row == NULL) {
        return fail(OPREG_E_LOAD, "plugin %s: %s %u is a null row", plugin, what, index);
    }
    memcpy(&size, row, sizeof size);
    if (size < oldest) {
        return fail(OPREG_E_LOAD, "plugin %s: %s %u has struct_size %u, it must be at least %zu",
                    plugin, what, index, size, oldest);
    }
    memset(out, 0, known);
    memcpy(out, row, size < known ? size : known);
    return OPREG_OK;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static opreg_status check_list(const char *plugin, const char *what, const uint32_t *formats) {
    for (uint32_t i = 0; formats[i] != 0; i++) {
        if (i == MAX_FORMAT_IDS) {
            return fail(OPREG_E_LOAD, "plugin %s: the formats of %s do not end with 0", plugin,
                        what);
        }
    }
    return OPREG_OK;
}

static int has_weights(uint32_t op) {
    return op == OPREG_OP_MATMUL_BT_QUANT || op == OPREG_OP_MOE_MATMUL || op == OPREG_OP_MOE_GLU ||
           op == OPREG_OP_MOE_DOWN || op == OPREG_OP_MOE_FFN;
}

static opreg_status check_kernel(const plugin_entry *entry, uint32_t index) {
    const opreg_kernel *k = &entry->kernels[index];
    const char *plugin = entry->table.name;
    const uint32_t known = OPREG_KF_BASELINE | OPREG_KF_GRAPH_SAFE | OPREG_KF_DETERMINISTIC |
                           OPREG_KF_WIDTH_INVARIANT;
    if (k->name == NULL || strlen(k->name) > 63 || !name_is_valid(k->name, '_')) {
        return fail(OPREG_E_LOAD,
                    "plugin %s: kernel %u is named \"%.80s\", a name is at most 63 lower-case "
                    "letters, digits and _",
                    plugin, index, k->name != NULL ? k->name : "(null)");
    }
    if (problem_op_find((opreg_op)k->op) == NULL) {
        return fail(OPREG_E_LOAD, "plugin %s: kernel %s is for operator %u, which does not exist",
                    plugin, k->name, k->op);
    }
    if (k->level < OPREG_LEVEL_BAND || k->level > OPREG_LEVEL_CANONICAL) {
        return fail(OPREG_E_LOAD,
                    "plugin %s: kernel %s has level %u, it must be BAND, INT or CANONICAL", plugin,
                    k->name, k->level);
    }
    if (!(k->band >= 0 && k->band <= 2e-3) || (k->band > 0 && k->level != OPREG_LEVEL_BAND)) {
        return fail(OPREG_E_LOAD,
                    "plugin %s: kernel %s declares a band of %g, it must be 0, or at level BAND up "
                    "to 2e-3",
                    plugin, k->name, k->band);
    }
    if ((k->flags & ~known) != 0) {
        return fail(OPREG_E_LOAD, "plugin %s: kernel %s has unknown flags 0x%x", plugin, k->name,
                    k->flags & ~known);
    }
    if (k->summary == NULL || k->supports == NULL || k->run == NULL) {
        return fail(OPREG_E_LOAD, "plugin %s: kernel %s has a null %s, which is required", plugin,
                    k->name,
                    k->summary == NULL    ? "summary"
                    : k->supports == NULL ? "supports"
                                          : "run");
    }
    if (has_weights(k->op) != (k->formats != NULL)) {
        return fail(OPREG_E_LOAD, "plugin %s: kernel %s of %s must have %s", plugin, k->name,
                    opreg_op_name((opreg_op)k->op),
                    has_weights(k->op) ? "a list of formats" : "no formats: it has no weight");
    }
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(entry->kernels[i].name, k->name) == 0) {
            return fail(OPREG_E_LOAD, "plugin %s: two kernels are named %s", plugin, k->name);
        }
    }
    if (k->layout != OPREG_LAYOUT_STORED && k->layout != OPREG_LAYOUT_ANY) {
        uint32_t i = 0;
        while (i < entry->table.num_layouts && entry->layouts[i].id != k->layout) {
            i++;
        }
        if (i == entry->table.num_layouts) {
            return fail(OPREG_E_LOAD,
                        "plugin %s: kernel %s reads layout %u, which the plugin does not have",
                        plugin, k->name, k->layout);
        }
    }
    return k->formats != NULL ? check_list(plugin, k->name, k->formats) : OPREG_OK;
}

static opreg_status check_layout(const plugin_entry *entry, uint32_t index) {
    const opreg_layout *l = &entry->layouts[index];
    const char *plugin = entry->table.name;
    if (l->name == NULL || !name_is_valid(l->name, '_')) {
        return fail(OPREG_E_LOAD, "plugin %s: layout %u has the bad name \"%.80s\"", plugin, index,
                    l->name != NULL ? l->name : "(null)");
    }
    if (l->id == OPREG_LAYOUT_STORED || l->id == OPREG_LAYOUT_ANY) {
        return fail(OPREG_E_LOAD, "plugin %s: layout %s has the reserved id %u", plugin, l->name,
                    l->id);
    }
    if (l->summary == NULL || l->formats == NULL || l->bytes == NULL || l->pack == NULL ||
        l->unpack == NULL) {
        return fail(OPREG_E_LOAD,
                    "plugin %s: layout %s has a null summary, formats, bytes, pack or unpack",
                    plugin, l->name);
    }
    for (uint32_t i = 0; i < index; i++) {
        if (entry->layouts[i].id == l->id) {
            return fail(OPREG_E_LOAD, "plugin %s: the layouts %s and %s share the id %u", plugin,
                        entry->layouts[i].name, l->name, l->id);
        }
    }
    return check_list(plugin, l->name, l->formats);
}

static opreg_status check_format(const plugin_entry *entry, uint32_t index) {
    const opreg_plugin_format *f = &entry->formats[index];
    const opreg_registry *reg = entry->reg;
    const char *plugin = entry->table.name;
    if (f->name == NULL || !name_is_valid(f->name, '_')) {
        return fail(OPREG_E_LOAD, "plugin %s: format %u has the bad name \"%.80s\"", plugin, index,
                    f->name != NULL ? f->name : "(null)");
    }
    if (f->id < OPREG_DTYPE_PLUGIN || f->block_values == 0 || f->block_bytes == 0 ||
        f->to_f32 == NULL) {
        return fail(OPREG_E_LOAD,
                    "plugin %s: format %s needs an id of 0x%x or more (it has 0x%x), a block and "
                    "to_f32",
                    plugin, f->name, (unsigned)OPREG_DTYPE_PLUGIN, f->id);
    }
    for (size_t i = 0; i < reg->num_formats; i++) {
        if (reg->formats[i]->id == f->id) {
            return fail(OPREG_E_LOAD, "plugin %s: format %s has the id 0x%x of another plugin's %s",
                        plugin, f->name, f->id, reg->formats[i]->name);
        }
    }
    for (uint32_t i = 0; i < index; i++) {
        if (entry->formats[i].id == f->id) {
            return fail(OPREG_E_LOAD, "plugin %s: two formats have the id 0x%x", plugin, f->id);
        }
    }
    return OPREG_OK;
}

static opreg_status check_io(const plugin_entry *entry) {
    const opreg_device_io *io = &entry->io;
    int graphs = (io->capture_begin != NULL) + (io->capture_end != NULL) +
                 (io->graph_launch != NULL) + (io->graph_destroy != NULL);
    int events = (io->event_create != NULL) + (io->event_destroy != NULL) +
                 (io->event_record != NULL) + (io->event_elapsed_us != NULL);
    if (io->alloc == NULL || io->free == NULL || io->to_device == NULL || io->to_host == NULL ||
        io->copy == NULL || io->fill == NULL || io->stream_create == NULL ||
        io->stream_destroy == NULL || io->stream_sync == NULL) {
        return fail(OPREG_E_LOAD, "plugin %s: a required function of its io table is null",
                    entry->table.name);
    }
    if ((graphs != 0 && graphs != 4) || (events != 0 && events != 4)) {
        return fail(OPREG_E_LOAD, "plugin %s: its io table has some %s functions but not all",
                    entry->table.name, graphs != 0 && graphs != 4 ? "graph" : "event");
    }
    return OPREG_OK;
}

/* ---- the table ------------------------------------------------------------------------------ */

static opreg_status check_head(const plugin_entry *entry) {
    const opreg_plugin *t = &entry->table;
    const char *called = entry->name[0] != '\0' ? entry->name : "(added)";
    if (t->abi_major != OPREG_ABI_MAJOR) {
        return fail(OPREG_E_ABI, "plugin %s is for ABI %u.x, this opreg %s has %u.%u: rebuild it",
                    called, t->abi_major, OPREG_VERSION, OPREG_ABI_MAJOR, OPREG_ABI_MINOR);
    }
    if (t->struct_size < OLDEST(opreg_plugin, shutdown)) {
        return fail(OPREG_E_ABI, "plugin %s filled a table of %u bytes, it must be at least %zu",
                    called, t->struct_size, OLDEST(opreg_plugin, shutdown));
    }
    if (t->abi_minor > OPREG_ABI_MINOR) {
        return fail(OPREG_E_ABI,
                    "plugin %s answered with ABI minor %u, but this opreg offered at most %u",
                    called, t->abi_minor, OPREG_ABI_MINOR);
    }
    if (t->name == NULL || strlen(t->name) > 31 || !name_is_valid(t->name, '-')) {
        return fail(OPREG_E_LOAD,
                    "plugin %s calls itself \"%.80s\", a name is at most 31 letters: lower-case "
                    "words joined by hyphens",
                    called, t->name != NULL ? t->name : "(null)");
    }
    if (entry->name[0] != '\0' && strcmp(entry->name, t->name) != 0) {
        return fail(OPREG_E_LOAD, "the library of plugin %s says it is plugin %s", entry->name,
                    t->name);
    }
    if (t->version == NULL || t->built_with == NULL || t->archs == NULL || t->io == NULL ||
        t->probe == NULL) {
        return fail(OPREG_E_LOAD, "plugin %s has a null %s, which is required", t->name,
                    t->version == NULL      ? "version"
                    : t->built_with == NULL ? "built_with"
                    : t->archs == NULL      ? "archs"
                    : t->io == NULL         ? "io"
                                            : "probe");
    }
    if ((t->num_kernels > 0 && t->kernels == NULL) || (t->num_formats > 0 && t->formats == NULL) ||
        (t->num_layouts > 0 && t->layouts == NULL)) {
        return fail(OPREG_E_LOAD, "plugin %s counts kernels, formats or layouts in a null table",
                    t->name);
    }
    if (t->num_kernels > MAX_ROWS || t->num_formats > MAX_ROWS || t->num_layouts > MAX_ROWS) {
        return fail(OPREG_E_LOAD, "plugin %s has more than %u rows in a table", t->name, MAX_ROWS);
    }
    return OPREG_OK;
}

static opreg_status copy_steps(plugin_entry *entry) {
    const opreg_device_steps *s = &entry->steps;
    opreg_status status = OPREG_OK;
    if (entry->table.steps == NULL) {
        return OPREG_OK;
    }
    status = copy_row(&entry->steps, sizeof entry->steps, OLDEST(opreg_device_steps, compare),
                      entry->table.steps, entry->table.name, "table of steps", 0);
    if (status == OPREG_OK &&
        (s->gather == NULL || s->norm == NULL || s->heads == NULL || s->experts == NULL ||
         s->glu == NULL || s->cap == NULL || s->argmax == NULL || s->compare == NULL)) {
        status = fail(OPREG_E_LOAD, "plugin %s: its table of steps has some but not all",
                      entry->table.name);
    }
    return status;
}

static opreg_status copy_tables(plugin_entry *entry) {
    const opreg_plugin *t = &entry->table;
    opreg_status status;
    entry->kernels = calloc(t->num_kernels + 1u, sizeof *entry->kernels);
    entry->kernel_flags = calloc(t->num_kernels + 1u, sizeof *entry->kernel_flags);
    entry->layouts = calloc(t->num_layouts + 1u, sizeof *entry->layouts);
    entry->formats = calloc(t->num_formats + 1u, sizeof *entry->formats);
    if (entry->kernels == NULL || entry->kernel_flags == NULL || entry->layouts == NULL ||
        entry->formats == NULL) {
        return fail(OPREG_E_NOMEM, "no memory for the tables of plugin %s", t->name);
    }
    status = copy_row(&entry->io, sizeof entry->io, OLDEST(opreg_device_io, event_elapsed_us),
                      t->io, t->name, "io table", 0);
    if (status == OPREG_OK) {
        status = check_io(entry);
    }
    status = status == OPREG_OK ? copy_steps(entry) : status;
    for (uint32_t i = 0; status == OPREG_OK && i < t->num_layouts; i++) {
        status = copy_row(&entry->layouts[i], sizeof entry->layouts[i],
                          OLDEST(opreg_layout, unpack), t->layouts[i], t->name, "layout", i);
        status = status == OPREG_OK ? check_layout(entry, i) : status;
    }
    for (uint32_t i = 0; status == OPREG_OK && i < t->num_formats; i++) {
        status = copy_row(&entry->formats[i], sizeof entry->formats[i],
                          OLDEST(opreg_plugin_format, to_f32), t->formats[i], t->name, "format", i);
        status = status == OPREG_OK ? check_format(entry, i) : status;
    }
    for (uint32_t i = 0; status == OPREG_OK && i < t->num_kernels; i++) {
        status = copy_row(&entry->kernels[i], sizeof entry->kernels[i],
                          OLDEST(opreg_kernel, release), t->kernels[i], t->name, "kernel", i);
        status = status == OPREG_OK ? check_kernel(entry, i) : status;
    }
    return status;
}

/* Every kernel of the manifest is in the table and the other way round: flags follow from it. */
static opreg_status compare_manifest(const plugin_entry *entry) {
    const opreg_plugin *t = &entry->table;
    const char *list = entry->about->kernels;
    char word[256], other[256];
    uint32_t listed = 0;
    while (next_word(&list, word, sizeof word)) {
        uint32_t i = 0;
        for (const char *rest = list; next_word(&rest, other, sizeof other);) {
            if (strcmp(other, word) == 0) {
                return fail(OPREG_E_LOAD, "%s lists the kernel %s twice", entry->path, word);
            }
        }
        while (i < t->num_kernels && strcmp(entry->kernels[i].name, word) != 0) {
            i++;
        }
        if (i == t->num_kernels) {
            return fail(OPREG_E_LOAD, "%s lists the kernel %s, which its library does not have",
                        entry->path, word);
        }
        listed++;
    }
    return listed == t->num_kernels
               ? OPREG_OK
               : fail(OPREG_E_LOAD, "%s lists %u kernels, but its library has %u: they do not belong "
                                    "together",
                      entry->path, listed, t->num_kernels);
}

/* ---- entry and probe ------------------------------------------------------------------------ */

static opreg_status call_entry(plugin_entry *entry, opreg_entry_fn function) {
    const char *called = entry->name[0] != '\0' ? entry->name : "(added)";
    uint32_t mark = error_mark();
    opreg_status status;
    memset(&entry->table, 0, sizeof entry->table);
    entry->table.struct_size = sizeof entry->table;
    status = function(&entry->host, &entry->table);
    if (status != OPREG_OK) {
        const char *said = error_since(mark);
        return fail(status == OPREG_E_ABI ? OPREG_E_ABI : OPREG_E_LOAD,
                    "the entry of plugin %s answered %s%s%s", called, opreg_status_name(status),
                    said[0] != '\0' ? ": " : "", said);
    }
    if (entry->table.struct_size > sizeof entry->table) {
        entry->table.struct_size = sizeof entry->table;
    }
    return check_head(entry);
}

static opreg_status call_probe(plugin_entry *entry) {
    size_t count = 0, cap = 16;
    uint32_t mark;
    opreg_status status;
    for (;;) {
        opreg_device *rows = calloc(cap, sizeof *rows);
        if (rows == NULL) {
            return fail(OPREG_E_NOMEM, "no memory for the devices of plugin %s", entry->table.name);
        }
        for (size_t i = 0; i < cap; i++) {
            rows[i].struct_size = sizeof rows[i];
        }
        mark = error_mark();
        status = entry->table.probe(&entry->host, rows, cap, &count);
        free(entry->devices);
        entry->devices = rows;
        if (status != OPREG_OK) {
            const char *said = error_since(mark);
            return fail(status, "the probe of plugin %s answered %s%s%s", entry->table.name,
                        opreg_status_name(status), said[0] != '\0' ? ": " : "", said);
        }
        if (count <= cap) {
            break;
        }
        if (count > MAX_DEVICES) {
            return fail(OPREG_E_LOAD, "the probe of plugin %s found %zu devices", entry->table.name,
                        count);
        }
        cap = count;
    }
    entry->num_devices = count;
    for (size_t i = 0; i < count; i++) {
        opreg_device *row = &entry->devices[i];
        if (row->kind < OPREG_CPU || row->kind > OPREG_HIP ||
            memchr(row->arch, '\0', sizeof row->arch) == NULL ||
            memchr(row->name, '\0', sizeof row->name) == NULL) {
            return fail(OPREG_E_LOAD, "the probe of plugin %s filled device %zu with a bad kind or "
                                      "text",
                        entry->table.name, i);
        }
    }
    return OPREG_OK;
}

static opreg_status open_library(plugin_entry *entry, opreg_entry_fn *function) {
    void *symbol;
    if (entry->library == NULL) {
        entry->library = dlopen(entry->about->library, RTLD_NOW | RTLD_LOCAL);
    }
    if (entry->library == NULL) {
        const char *why = dlerror();
        return fail(OPREG_E_LOAD, "plugin %s cannot be loaded: %s", entry->name,
                    why != NULL ? why : "no reason given");
    }
    symbol = dlsym(entry->library, "opreg_plugin_entry");
    if (symbol == NULL) {
        return fail(OPREG_E_LOAD, "plugin %s: %s does not export opreg_plugin_entry", entry->name,
                    entry->about->library);
    }
    memcpy(function, &symbol, sizeof symbol);
    return OPREG_OK;
}

static void free_tables(plugin_entry *entry) {
    free(entry->kernels);
    free(entry->kernel_flags);
    free(entry->layouts);
    free(entry->formats);
    free(entry->devices);
    entry->kernels = NULL;
    entry->kernel_flags = NULL;
    entry->layouts = NULL;
    entry->formats = NULL;
    entry->devices = NULL;
    entry->num_devices = 0;
    memset(&entry->table, 0, sizeof entry->table);
}

static opreg_status check_manifest_abi(const plugin_entry *entry) {
    const manifest *m = entry->about;
    if (m->abi_major != OPREG_ABI_MAJOR || m->abi_minor > OPREG_ABI_MINOR) {
        return fail(OPREG_E_ABI, "plugin %s needs ABI %u.%u or a later minor, this opreg %s has %u.%u",
                    entry->name, m->abi_major, m->abi_minor, OPREG_VERSION, OPREG_ABI_MAJOR,
                    OPREG_ABI_MINOR);
    }
    return OPREG_OK;
}

opreg_status loader_open(plugin_entry *entry) {
    opreg_entry_fn function = entry->entry;
    opreg_status status = OPREG_OK;
    int entered = 0;
    if (entry->about != NULL) {
        status = check_manifest_abi(entry);
        if (status == OPREG_OK) {
            status = manifest_library(entry->about);
        }
        if (status == OPREG_OK && entry->library == NULL && trial_run(entry) == TRIAL_FAILED) {
            status = OPREG_E_LOAD;
        }
        if (status == OPREG_OK) {
            status = open_library(entry, &function);
        }
    }
    if (status == OPREG_OK) {
        status = call_entry(entry, function);
        entered = status == OPREG_OK;
    }
    if (status == OPREG_OK) {
        status = copy_tables(entry);
    }
    if (status == OPREG_OK && entry->about != NULL) {
        status = compare_manifest(entry);
    }
    if (status == OPREG_OK) {
        status = call_probe(entry);
    }
    if (status != OPREG_OK) {
        if (entered && entry->table.shutdown != NULL) {
            entry->table.shutdown(&entry->host);
        }
        free_tables(entry);
    }
    return status;
}

void loader_close(plugin_entry *entry) {
    if (entry->table.shutdown != NULL) {
        entry->table.shutdown(&entry->host);
    }
    free_tables(entry);
}

void loader_rehearse(plugin_entry *entry, void (*reached)(void *user, char step), void *user) {
    opreg_entry_fn function;
    reached(user, 'o');
    if (open_library(entry, &function) != OPREG_OK) {
        return;
    }
    reached(user, 'e');
    if (call_entry(entry, function) != OPREG_OK || copy_tables(entry) != OPREG_OK) {
        return;
    }
    reached(user, 'p');
    call_probe(entry);
}
