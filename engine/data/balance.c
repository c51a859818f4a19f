/* What the owner of a folder of images should know before training on it. */
#include "data/dataset.h"

#include <string.h>

#include "core/system.h"
#include "core/text.h"

enum { UNEVEN = 3, FEW = 20, NAMED_MAX = 5 };

/* "few images: 2 of 9 classes have fewer than 20 to train on (iris 4, tulip 12)" */
static void remark_few(d9_context *context, const d9_dataset *dataset, const int64_t *counts) {
    int64_t few = 0;
    d9_text text;
    d9_text_init(context, &text);
    for (int64_t c = 0; c < dataset->classes; c++) {
        if (counts[c] >= FEW) continue;
        if (few < NAMED_MAX)
            d9_text_add(&text, "%s%s %lld", few ? ", " : "", dataset->class_names[c], (long long)counts[c]);
        few++;
    }
    if (few > 0 && d9_text_status(&text) == D9_OK)
        d9_log(context, D9_LOG_WARNING, "few images: %lld of %lld classes have fewer than %d to train on (%s%s)",
               (long long)few, (long long)dataset->classes, FEW, d9_text_get(&text), few > NAMED_MAX ? ", ..." : "");
    d9_text_free(&text);
}

static void remark_uneven(d9_context *context, const d9_dataset *dataset, const int64_t *counts) {
    int64_t most = 0, least = 0;
    for (int64_t c = 1; c < dataset->classes; c++) {
        if (counts[c] > counts[most]) most = c;
        if (counts[c] < counts[least]) least = c;
    }
    if (counts[most] < UNEVEN * counts[least]) return;
    const double ratio = (double)counts[most] / (double)(counts[least] ? counts[least] : 1);
    d9_log(context, D9_LOG_WARNING, "uneven classes: %s has %.3g times the training images of %s (%lld and %lld)",
           dataset->class_names[most], ratio, dataset->class_names[least], (long long)counts[most],
           (long long)counts[least]);
}

d9_status d9_dataset_remark(d9_context *context, const d9_dataset *dataset) {
    d9_status status = D9_OK;
    int64_t *counts = NULL;
    if (strcmp(dataset->name, "folder") != 0) return D9_OK;
    D9_TRY(D9_ALLOCATE(context, dataset->classes, "counts of classes", &counts));
    for (int64_t i = 0; i < dataset->train.count; i++) counts[dataset->train.labels[i]]++;
    remark_uneven(context, dataset, counts);
    remark_few(context, dataset, counts);
done:
    d9_release(context, counts);
    return status;
}
