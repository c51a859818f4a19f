/* Properties of every accepted configuration: see configuration.h. */
#include "tests/fuzz/support/configuration.h"
#include "train/session.h"

static void print(fuzz_bench *bench, const d9_config *config, bool origins, d9_text *text) {
    d9_text_init(&bench->context, text);
    d9_config_print(config, origins, text);
    fuzz_require(d9_text_status(text) == D9_OK, "a configuration can be printed");
}

/* A printed configuration, with or without origins, parses to the same configuration. */
static void round_trip(fuzz_bench *bench, const d9_config *config, bool origins) {
    d9_text printed, again, difference;
    d9_config *back = NULL;
    char hash[65], hash_back[65];
    print(bench, config, origins, &printed);
    if (d9_config_parse(&bench->context, config->path, d9_text_get(&printed), NULL, &back) != D9_OK)
        fuzz_require(false, bench->context.message);
    if (origins) {
        d9_text_free(&printed);
        print(bench, config, false, &printed);
    }
    print(bench, back, false, &again);
    fuzz_require(strcmp(d9_text_get(&printed), d9_text_get(&again)) == 0, "what was printed parses to the same");
    d9_config_hash(&bench->context, config, hash);
    d9_config_hash(&bench->context, back, hash_back);
    fuzz_require(strcmp(hash, hash_back) == 0, "and has the same hash");
    d9_text_init(&bench->context, &difference);
    d9_config_difference(config, back, &difference);
    fuzz_require(*d9_text_get(&difference) == 0, "and differs in nothing");
    d9_text_free(&difference), d9_text_free(&printed), d9_text_free(&again), d9_config_free(&bench->context, back);
}

static void check(fuzz_bench *bench, const d9_config *config) {
    json_t *object = NULL;
    round_trip(bench, config, false);
    round_trip(bench, config, true);
    fuzz_require(d9_effective_json(&bench->context, config, &object) == D9_OK, "a configuration becomes JSON");
    json_decref(object);
    const d9_status status = d9_config_try(&bench->context, config);
    fuzz_accepted(bench, status);
}

void fuzz_check_config(fuzz_bench *bench, d9_status status, d9_config *config) {
    if (fuzz_accepted(bench, status)) check(bench, config);
    d9_config_free(&bench->context, config);
}
