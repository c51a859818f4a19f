/* Sizes of classes, class weights, and warnings about small or unbalanced classes. */
#include "data/source.h"

#include "core/system.h"
#include "core/text.h"

enum { UNEVEN = 3, FEW = 20 /* also written in the message below */, NAMED_MAX = 5 };

/* Lists the first NAMED_MAX classes with fewer than `least` images: "iris 4, tulip 12". Returns the number of all such
 * classes. */
static int64_t list_classes_below(const d9_dataset *dataset, const int64_t *counts, int64_t least, d9_text *text) {
    int64_t below = 0;
    for (int64_t c = 0; c < dataset->classes; c++) {
        if (counts[c] >= least) continue;
        if (below < NAMED_MAX)
            d9_text_add(text, "%s%s %lld", below ? ", " : "", dataset->class_names[c], (long long)counts[c]);
        below++;
    }
    if (below > NAMED_MAX) d9_text_add(text, ", ...");
    return below;
}

/* Warns of classes with fewer than `least` images: "few images: 1 of 9 classes have fewer than 20 ... (iris 4)". */
static void warn_small_classes(d9_context *context, const d9_dataset *dataset, const int64_t *counts, int64_t least,
                               const char *what, const char *have) {
    d9_text named;
    d9_text_init(context, &named);
    const int64_t below = list_classes_below(dataset, counts, least, &named);
    if (below > 0 && d9_text_status(&named) == D9_OK)
        d9_log(context, D9_LOG_WARNING, "%s: %lld of %lld %s have %s (%s)", what, (long long)below,
               (long long)dataset->classes, dataset->multi_label ? "labels" : "classes", have, d9_text_get(&named));
    d9_text_free(&named);
}

static void warn_uneven(d9_context *context, const d9_dataset *dataset, const int64_t *counts) {
    int64_t most = 0, least = 0;
    for (int64_t c = 1; c < dataset->classes; c++) {
        if (counts[c] > counts[most]) most = c;
        if (counts[c] > 0 && (counts[least] == 0 || counts[c] < counts[least])) least = c;
    }
    if (counts[most] < UNEVEN * counts[least] || counts[least] == 0) return;
    const double ratio = (double)counts[most] / (double)counts[least];
    d9_log(context, D9_LOG_WARNING,
           "uneven classes: %s has %.3g times the training %ss of %s (%lld and %lld); "
           "train.class_weights=balanced lets each class count as much",
           dataset->class_names[most], ratio, d9_sample_noun(dataset), dataset->class_names[least],
           (long long)counts[most], (long long)counts[least]);
}

void d9_dataset_class_counts(const d9_dataset *dataset, const d9_split *part, int64_t *counts) {
    for (int64_t c = 0; c < dataset->classes; c++) counts[c] = 0;
    for (int64_t i = 0; i < part->count; i++)
        for (int64_t c = 0; c < dataset->classes && dataset->multi_label; c++) counts[c] += part->labels[i] >> c & 1;
    for (int64_t i = 0; i < part->count && !dataset->multi_label; i++) counts[part->labels[i]]++;
}

d9_status d9_dataset_warn(d9_context *context, const d9_dataset *dataset) {
    d9_status status = D9_OK;
    int64_t *trained = NULL, *evaluated = NULL;
    if (!d9_dataset_needs_path(dataset->name) || dataset->stream) return D9_OK;
    D9_TRY(D9_ALLOCATE(context, dataset->classes, "counts of classes", &trained));
    D9_TRY(D9_ALLOCATE(context, dataset->classes, "counts of classes", &evaluated));
    d9_dataset_class_counts(dataset, &dataset->train, trained);
    d9_dataset_class_counts(dataset, &dataset->test, evaluated);
    if (!dataset->multi_label) warn_uneven(context, dataset, trained);
    warn_small_classes(context, dataset, trained, FEW, dataset->tokens ? "few texts" : "few images",
                       "fewer than 20 to train on");
    warn_small_classes(context, dataset, evaluated, 1,
                       dataset->multi_label ? "the AUC leaves out labels" : "the accuracy leaves out classes",
                       dataset->tokens ? "no text to evaluate on" : "no image to evaluate on");
done:
    d9_release(context, trained);
    d9_release(context, evaluated);
    return status;
}

void d9_dataset_class_weights(const d9_dataset *dataset, double *weights) {
    const d9_split *train = &dataset->train;
    int64_t classes = 0;
    for (int64_t c = 0; c < dataset->classes; c++) weights[c] = 0;
    for (int64_t i = 0; i < train->count; i++) classes += weights[train->labels[i]]++ == 0;
    for (int64_t c = 0; c < dataset->classes; c++)
        if (weights[c] > 0) weights[c] = (double)train->count / ((double)classes * weights[c]);
}
