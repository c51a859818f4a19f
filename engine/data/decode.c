/* Decodes the files of a dataset into its parts, on several threads; see classes.h. */
#include <stdlib.h>
#include <string.h>

#include "core/machine.h"
#include "core/process.h"
#include "core/system.h"
#include "core/text.h"
#include "data/classes.h"
#include "data/split.h"
#include "kernels/formulas/philox.h"

enum { NAMED_MOST = 50 };

d9_status d9_class_files_check_folder(d9_context *context, const d9_dataset_options *options, const char *folder,
                                      const char *content) {
    if (d9_file_exists(context, folder)) return D9_OK;
    if (!options->path)
        return d9_fail(context, D9_USAGE,
                       "data.path: the %s dataset needs the folder that holds %s: --data DIR (a record keeps no "
                       "absolute path)",
                       options->name, content);
    return d9_fail(context, D9_DATA, "%s: No such file or directory; --data DIR says which folder holds %s", folder,
                   content);
}

d9_status d9_class_files_shuffle(d9_context *context, d9_arena *arena, uint64_t seed, d9_class_files *list) {
    d9_status status = D9_OK;
    int32_t *order;
    d9_class_file *files;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, list->count, &order));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, list->count, &files));
    D9_TRY(d9_keyed_order(context, seed, 0, D9_STREAM_SPLIT, D9_DRAW_SHUFFLE, list->count, order));
    for (int64_t i = 0; i < list->count; i++) files[i] = list->files[order[i]];
    list->files = files;
done:
    return status;
}

typedef struct reading { /* files that are being read into `dataset` */
    const d9_dataset_options *options;
    const d9_file_kind *kind;
    d9_dataset *dataset;
    int parts; /* 2: without D9_PART_VALID */
    d9_split *split[D9_PARTS];
    d9_class_files *list;    /* (parts) */
    char **faults[D9_PARTS]; /* error message of each file; NULL: it was decoded */
} reading;

/* Removes the samples that have an error message, and moves the others up. */
static void close_gaps(const d9_dataset *dataset, char *const *faults, d9_split *split, d9_class_files *list) {
    const size_t bytes = d9_sample_bytes(dataset);
    int64_t kept = 0;
    for (int64_t i = 0; i < split->count; i++) {
        if (faults[i]) continue;
        if (kept < i) memcpy(split->images + (size_t)kept * bytes, split->images + (size_t)i * bytes, bytes);
        list->files[kept] = list->files[i];
        split->names[kept] = split->names[i];
        split->labels[kept++] = split->labels[i];
    }
    list->count = split->count = kept;
}

/* Removes the files that failed to decode. In a training, fails if a part is empty, or if a class has no training
 * sample left (unless samples have several classes). In an evaluation, d9_dataset_load later rejects an empty test set.
 */
static d9_status drop_damaged(d9_context *context, const reading *reading) {
    static const char *const sets[D9_PARTS] = {"training", "test", "validation"};
    d9_status status = D9_OK;
    d9_dataset *dataset = reading->dataset;
    const char *sample = reading->kind->sample;
    int64_t missing = -1;
    for (int p = 0; p < reading->parts; p++)
        close_gaps(dataset, reading->faults[p], reading->split[p], &reading->list[p]);
    if (reading->options->known) goto done;
    for (int p = 0; p < reading->parts; p++)
        if (reading->split[p]->count == 0)
            D9_TRY(d9_fail(context, D9_DATA, "no %s of the %s set is left", sample, sets[p]));
    if (!dataset->multi_label)
        D9_TRY(d9_split_find_missing_class(context, &dataset->train, dataset->classes, &missing));
    if (missing >= 0)
        status = d9_fail(context, D9_DATA,
                         "%s: no training %s of this class is left; mend its files, or take the class out of the data",
                         dataset->class_names[missing], sample);
done:
    return status;
}

/* Warns of the files of all parts that could not be decoded: names the first NAMED_MOST, sorted, and counts the rest.
 * Returns D9_DATA if there are any and skip_damaged is not set, unless all are of a validation part that an evaluation
 * reads without being asked to. If a single file is the error, only the error names it. */
static d9_status report_damaged(d9_context *context, d9_arena *arena, const reading *reading) {
    d9_status status = D9_OK;
    const d9_dataset_options *options = reading->options;
    int64_t damaged = 0, wanted = 0, all = 0;
    char **named;
    for (int p = 0; p < reading->parts; p++) all += reading->split[p]->count;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, all, &named));
    for (int p = 0; p < reading->parts; p++)
        for (int64_t i = 0; i < reading->split[p]->count; i++)
            if (reading->faults[p][i]) {
                named[damaged++] = reading->faults[p][i];
                wanted += p != D9_PART_VALID || !options->known || options->validation;
            }
    const bool skip = options->skip_damaged || wanted == 0;
    qsort(named, (size_t)damaged, sizeof *named, d9_text_compare);
    if (damaged == 1 && !skip) D9_TRY(d9_fail(context, D9_DATA, "%s; --skip-damaged leaves it out", named[0]));
    for (int64_t i = 0; i < damaged && i < NAMED_MOST; i++)
        d9_log(context, D9_LOG_WARNING, "%s%s", named[i], skip ? "; left out" : "");
    if (damaged > NAMED_MOST)
        d9_log(context, D9_LOG_WARNING, "and %lld more%s", (long long)damaged - NAMED_MOST, skip ? "; left out" : "");
    if (damaged > 0 && !skip)
        status = d9_fail(context, D9_DATA, "%lld %s cannot be read, %snamed above; --skip-damaged leaves them out",
                         (long long)damaged, reading->kind->samples, damaged > NAMED_MOST ? "the first of them " : "");
done:
    return status;
}

static d9_status allocate_samples(d9_context *context, d9_arena *arena, const d9_class_files *list, d9_dataset *dataset,
                                  d9_split *split, char ***faults) {
    d9_status status;
    D9_TRY(d9_split_allocate(context, dataset, list->count, split));
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, list->count, faults));
    D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, list->count, &split->names));
    for (int64_t i = 0; i < list->count; i++) {
        char *name;
        D9_TRY(d9_arena_copy(context, &dataset->arena, list->files[i].path, &name));
        split->names[i] = name;
        split->labels[i] = list->files[i].label;
    }
done:
    return status;
}

/* Decodes the files on several threads. Sets `faults` (count) to each file's error message or NULL. Returns only errors
 * that are not due to a file, such as lack of memory or an interrupt. */
static d9_status decode_all(d9_context *context, d9_arena *arena, const reading *reading, d9_class_files *list,
                            d9_split *split, char ***faults) {
    d9_status status = D9_OK;
    const size_t bytes = d9_sample_bytes(reading->dataset);
    d9_context failure = {0};
    int signal_number = 0, threads = reading->options->threads > 0 ? reading->options->threads : d9_default_threads();
    D9_TRY(d9_openmp_threads_prepare(context, threads, &threads));
    D9_TRY(allocate_samples(context, arena, list, reading->dataset, split, faults));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < list->count; i++) {
        if (d9_context_interrupt(context)) continue;
        d9_context own = *context; /* one error message per file */
        d9_status found = reading->kind->decode(&own, reading->options, reading->dataset, &list->files[i],
                                                split->images + (size_t)i * bytes);
        if (found == D9_OK) continue;
        d9_context copying = found == D9_DATA ? *context : own;
#pragma omp critical
        {
            if (found == D9_DATA) found = d9_arena_copy(&copying, arena, own.message, &(*faults)[i]);
            if (found != D9_OK) failure = copying;
        }
    }
    if (failure.status != D9_OK) status = d9_fail(context, failure.status, "%s", failure.message);
    signal_number = d9_context_interrupt(context);
    if (signal_number) status = d9_fail(context, (d9_status)(128 + signal_number), "interrupted while reading files");
done:
    return status;
}

d9_status d9_class_files_decode(d9_context *context, d9_arena *arena, const d9_dataset_options *options,
                                const d9_file_kind *kind, d9_class_files *lists, int parts, d9_dataset *dataset) {
    d9_status status = D9_OK;
    reading reading = {options, kind, dataset, parts, {&dataset->train, &dataset->test, &dataset->valid}, lists, {0}};
    dataset->own_valid = parts > D9_PART_VALID;
    for (int p = 0; p < parts; p++)
        D9_TRY(decode_all(context, arena, &reading, &lists[p], reading.split[p], &reading.faults[p]));
    D9_TRY(report_damaged(context, arena, &reading));
    if (options->skip_damaged || options->known) D9_TRY(drop_damaged(context, &reading));
done:
    return status;
}
