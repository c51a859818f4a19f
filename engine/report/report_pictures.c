/* Embeds pictures in the page of a report: gnuplot's SVG and, as base64, PNG files. These show the worst mistakes, and
 * what `dawn9 data preview CONFIG --out DIR/augmentation.png --filters DIR/filters.png` wrote beside the runs. */
#include "report/report_parts.h"

#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "data/dataset.h"
#include "data/preview.h"

enum { PATH_BYTES = 4096, COLUMNS = 8, MISTAKES = 24, CAPTIONED = 8 };

/* ---- a PNG in the page ---- */

static void put_base64(d9_text *text, const uint8_t *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const unsigned long group = (unsigned long)bytes[i] << 16 |
                                    (unsigned long)(i + 1 < size ? bytes[i + 1] : 0) << 8 |
                                    (unsigned long)(i + 2 < size ? bytes[i + 2] : 0);
        d9_text_add(text, "%c%c%c%c", digits[group >> 18 & 63], digits[group >> 12 & 63],
                    i + 1 < size ? digits[group >> 6 & 63] : '=', i + 2 < size ? digits[group & 63] : '=');
    }
}

d9_status d9_report_embed(d9_context *context, const d9_report *report, const char *path, const char *name,
                          char **html) {
    d9_status status = D9_OK;
    char whole[PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t size;
    d9_text text;
    d9_text_init(context, &text);
    snprintf(whole, sizeof whole, "%s/%s", report->folder, path);
    D9_TRY(d9_file_read(context, whole, &bytes, &size));
    if (strstr(path, ".svg")) {
        d9_report_convert_svg((const char *)bytes, name, &text);
    } else {
        d9_text_add(&text, "<img alt=\"%s\" src=\"data:image/png;base64,", name);
        put_base64(&text, bytes, size);
        d9_text_add(&text, "\">");
    }
    D9_TRY(d9_text_status(&text));
    *html = text.bytes; /* moves the buffer to the caller */
    text.bytes = NULL;
done:
    d9_text_free(&text);
    d9_release(context, bytes);
    return status;
}

/* ---- worst mistakes: wrong predictions with the highest confidence ---- */

static int64_t integer_at(const json_t *data, const char *key) {
    const double value = d9_json_real(data, key);
    return isnan(value) ? 0 : (int64_t)value;
}

/* Loads the data set of a run. NULL: not available without a path, not of 3 channels, or not matching the stored
 * predictions. */
static d9_dataset *load_dataset(d9_context *context, const d9_report_run *run, const d9_run_predictions *read) {
    const json_t *data = json_object_get(json_object_get(run->result, "config"), "data");
    d9_context quiet = *context;
    d9_dataset *dataset = NULL;
    const d9_dataset_options wanted = {.name = json_string_value(json_object_get(data, "dataset")),
                                       .validation = integer_at(data, "validation"),
                                       .image_size = integer_at(data, "image_size"),
                                       .synthetic_train = integer_at(data, "synthetic_train"),
                                       .synthetic_test = integer_at(data, "synthetic_test")};
    d9_context_clear(&quiet);
    if (!wanted.name || d9_dataset_needs_path(wanted.name)) return NULL; /* its path may not be recorded */
    if (d9_dataset_load(&quiet, &wanted, &dataset) != D9_OK) return NULL;
    bool same = dataset->test.count == read->count && dataset->channels == 3;
    for (int64_t i = 0; same && i < read->count; i++)
        same =
            read->label[i] == dataset->test.labels[i] && read->top1[i] >= 0 && read->top1[i] < (double)dataset->classes;
    if (same) return dataset;
    d9_dataset_free(&quiet, dataset);
    return NULL;
}

/* Finds the wrong predictions with the highest confidence, in descending order, at most MISTAKES. Returns their
 * number. */
static int find_mistakes(const d9_run_predictions *read, int64_t mistakes[MISTAKES]) {
    int count = 0;
    for (int64_t i = 0; i < read->count; i++) {
        if (read->top1[i] == read->label[i]) continue;
        int at = count < MISTAKES ? count : MISTAKES - 1;
        if (count == MISTAKES && !(read->confidence[i] > read->confidence[mistakes[at]])) continue;
        for (; at > 0 && read->confidence[i] > read->confidence[mistakes[at - 1]]; at--)
            mistakes[at] = mistakes[at - 1];
        mistakes[at] = i;
        if (count < MISTAKES) count++;
    }
    return count;
}

/* Writes report/mistakes.png: the images of the mistakes, COLUMNS in a row. */
static d9_status write_sheet(d9_context *context, const d9_report *report, const d9_dataset *dataset,
                             const int64_t *mistakes, int count) {
    d9_status status = D9_OK;
    char path[PATH_BYTES];
    d9_sheet sheet = {0};
    const int columns = count < COLUMNS ? count : COLUMNS, rows = (count + COLUMNS - 1) / COLUMNS;
    const int64_t pixels = dataset->height * dataset->width;
    uint8_t *rgb = NULL;
    const d9_sheet_options options = {.tile_height = (int)dataset->height, .tile_width = (int)dataset->width};
    D9_TRY(D9_ALLOCATE(context, pixels * 3, "an image", &rgb));
    D9_TRY(d9_sheet_make(context, rows, columns, &options, &sheet));
    for (int i = 0; i < count; i++) {
        d9_sample_to_rgb(dataset, dataset->test.images + (size_t)mistakes[i] * d9_sample_bytes(dataset), pixels, rgb);
        d9_sheet_put_bytes(&sheet, i / COLUMNS, i % COLUMNS, rgb);
    }
    snprintf(path, sizeof path, "%s/report/mistakes.png", report->folder);
    D9_TRY(d9_sheet_write(context, &sheet, path));
done:
    d9_release(context, rgb);
    d9_sheet_free(context, &sheet);
    return status;
}

/* Makes the caption: "... From the left, row by row: cat taken for dog (99.8%); ..." */
static d9_status make_caption(d9_context *context, d9_report *report, const d9_dataset *dataset,
                              const d9_run_predictions *read, const int64_t *mistakes, int count, const char **note) {
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "Wrong predictions with the highest confidence. From the left, row by row: ");
    for (int i = 0; i < count && i < CAPTIONED; i++) {
        const int64_t at = mistakes[i];
        d9_text_add(&text, "%s%s taken for %s (%.1f%%)", i ? "; " : "", dataset->class_names[(int)read->label[at]],
                    dataset->class_names[(int)read->top1[at]], 100 * read->confidence[at]);
    }
    d9_text_add(&text, count > CAPTIONED ? "; and others." : ".");
    return d9_report_keep(context, report, &text, note);
}

static d9_status plot_mistakes(d9_context *context, d9_report *report, const d9_report_run *run, d9_report_plot *plot) {
    d9_status status = D9_OK;
    d9_run_predictions read;
    int64_t mistakes[MISTAKES];
    d9_dataset *dataset = NULL;
    D9_TRY(d9_run_predictions_read(context, report, run, &read));
    const int count = read.count ? find_mistakes(&read, mistakes) : 0;
    if (count > 0) dataset = load_dataset(context, run, &read);
    if (!dataset) goto done;
    *plot = (d9_report_plot){.name = "mistakes", .title = "The worst mistakes of one run"};
    D9_TRY(make_caption(context, report, dataset, &read, mistakes, count, &plot->note));
    D9_TRY(write_sheet(context, report, dataset, mistakes, count));
    D9_TRY(d9_report_embed(context, report, "report/mistakes.png", plot->title, &plot->html));
done:
    if (dataset) d9_dataset_free(context, dataset);
    d9_run_predictions_free(context, &read);
    return status;
}

/* ---- images of `dawn9 data preview` ---- */

static const struct {
    const char *name, *file, *title, *note;
} sheets[] = {
    {"augmentation", "augmentation.png", "The images as the network sees them",
     "Left: original images. Right of them: as augmented in successive epochs."},
    {"filters", "filters.png", "Filters of the first convolution",
     "Initial values: zero is mid-grey, the largest magnitude has full intensity."},
};

d9_status d9_report_add_pictures(d9_context *context, d9_report *report, d9_report_plot *plots, int *count) {
    d9_status status = D9_OK;
    char path[PATH_BYTES];
    for (int r = 0; report->predictions.classes > 0 && r < report->run_count; r++) {
        if (report->runs[r].arm != report->predictions.arm || !report->runs[r].result) continue;
        D9_TRY(plot_mistakes(context, report, &report->runs[r], &plots[*count]));
        *count += plots[*count].html != NULL;
        break;
    }
    for (size_t i = 0; i < sizeof sheets / sizeof *sheets && *count < D9_REPORT_PLOTS; i++) {
        snprintf(path, sizeof path, "%.4000s/%s", report->folder, sheets[i].file);
        if (!d9_file_exists(context, path)) continue;
        d9_report_plot *plot = &plots[*count];
        *plot = (d9_report_plot){
            .name = sheets[i].name, .title = sheets[i].title, .note = sheets[i].note, .file = sheets[i].file};
        D9_TRY(d9_report_embed(context, report, sheets[i].file, plot->title, &plot->html));
        ++*count;
    }
done:
    return status;
}
