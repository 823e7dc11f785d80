/* SPDX-License-Identifier: MIT
 * fuzz_manifest.c - a manifest of any text is taken with names that are safe to use, or refused. */
#include "fuzz.h"

#include "discover.h"
#include "flags.h"

static void define_words(flags *store, const manifest *m, const char *list) {
    char word[256], flag[400];
    size_t index;
    while (next_word(&list, word, sizeof word)) {
        FUZZ_CHECK(name_is_valid(word, '_') && strlen(word) < 64);
        snprintf(flag, sizeof flag, "%s/%s", m->name, word);
        if (flags_define(store, flag, FLAG_VARIANT, "off", "", &index) == OPREG_OK) {
            FUZZ_CHECK(flags_find(store, flag) == index);
        }
    }
    FUZZ_CHECK(*list == '\0'); /* no word is lost */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, size};
    char *text = fuzz_text(&in);
    manifest m;
    opreg_status status = manifest_parse("/nowhere/any.manifest", text, &m);
    FUZZ_CHECK(status == OPREG_OK || status == OPREG_E_LOAD);
    if (status == OPREG_OK) {
        flags store;
        FUZZ_CHECK(name_is_valid(m.name, '-') && strlen(m.name) < sizeof m.name);
        FUZZ_CHECK(strchr(m.file, '/') == NULL && m.file[0] != '\0');
        FUZZ_CHECK(m.device >= OPREG_CPU && m.device <= OPREG_HIP);
        FUZZ_CHECK(flags_init_from(&store, NULL, 0, NULL, NULL) == OPREG_OK);
        define_words(&store, &m, m.kernels);
        define_words(&store, &m, m.switches);
        flags_free(&store);
        FUZZ_CHECK(manifest_library(&m) == OPREG_E_LOAD);
    } else {
        FUZZ_CHECK(strstr(opreg_last_error(), "any.manifest") != NULL);
    }
    free(text);
    return 0;
}
