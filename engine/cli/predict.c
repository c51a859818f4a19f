/* dawn9 predict: classifies images or texts with a saved model. Files are read, classified and printed in batches; an
 * unreadable file does not stop the others. */
#include "cli/cli.h"
#include "core/system.h"
#include "data/preview.h"
#include "record/effective.h"
#include "exchange/predict.h"
#include <stdio.h>
#include <string.h>

typedef struct predict_options {
    const char *model, *config, *backend, *precision, *sheet, *features;
    d9_flag_list files, set;
    d9_flag_integer top, threads;
    bool json, worst_first;
} predict_options;

static const d9_flag flags[] = {
    {"MODEL", D9_FLAG_ARGUMENT, offsetof(predict_options, model),
     .doc = "model.safetensors of a run, or the run's folder"},
    {"FILE", D9_FLAG_WORDS, offsetof(predict_options, files),
     .doc = "PNG, JPEG and WebP files, or .txt for a model of texts, or folders of them"},
    {"top", D9_FLAG_INTEGER, offsetof(predict_options, top), "K", .minimum = 1, .maximum = 1000000,
     .doc = "show the K most probable classes; default 1"},
    {"json", D9_FLAG_SWITCH, offsetof(predict_options, json), .doc = "print a line of JSON per file"},
    {"sheet", D9_FLAG_TEXT, offsetof(predict_options, sheet), "OUT.png",
     .doc =
         "also draw a contact sheet of at most 400 images: each with its label and probability, and its true class if "
         "its folder has the name of a class"},
    {"worst-first", D9_FLAG_SWITCH, offsetof(predict_options, worst_first),
     .doc =
         "sort the sheet by the probability of the true class, or where it is not known of the predicted one; lowest "
         "first"},
    {"features", D9_FLAG_TEXT, offsetof(predict_options, features), "OUT",
     .doc = "also write the features before the last layer, a row per file, to OUT.npy or OUT.safetensors"},
    {"config", D9_FLAG_TEXT, offsetof(predict_options, config), "CONFIG",
     .doc = "configuration used instead of the model's; required for torchvision weights"},
    {"set", D9_FLAG_LIST, offsetof(predict_options, set), "K=V",
     .doc = "change one key of that configuration (model.depth=50); may be repeated"},
    {"backend", D9_FLAG_TEXT, offsetof(predict_options, backend), "B",
     .doc = "auto, or one that `dawn9 devices` lists; default the model's"},
    {"precision", D9_FLAG_TEXT, offsetof(predict_options, precision), "P",
     .doc = "auto, f64, f32, tf32 (cuda), bf16 or fp16; default the model's"},
    {"threads", D9_FLAG_INTEGER, offsetof(predict_options, threads), "N", .minimum = 0, .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {.type = D9_FLAG_END},
};

enum { BATCH = 64, SHEET_MAX = 400 }; /* most samples in memory at a time, and images on a sheet */

typedef struct tile { /* an image of the sheet */
    double sort_key;  /* lowest first */
    d9_caption caption;
    uint8_t *thumbnail;
} tile;

typedef struct prediction { /* state of the command */
    d9_cli *cli;
    const predict_options *options;
    d9_cli_samples samples;
    d9_predictor predictor;
    int64_t top;
    tile *tiles; /* (at most SHEET_MAX), sorted */
    int tile_count, failed;
    int name_width, label_width; /* columns of the printed table */
    uint8_t *content;            /* BATCH samples: pixels (height, width, 3), or tokens i32 (width) */
    size_t sample_bytes;
    uint8_t *thumbnails;        /* (BATCH, D9_THUMBNAIL_BYTES); NULL: no sheet */
    double *probabilities;      /* (BATCH, classes) */
    int32_t *ranked_classes;    /* (classes); the first `top` are sorted, most probable first */
    double *batch_features;     /* (BATCH, features.width); NULL: not requested */
    d9_features features;       /* a row per readable file */
    const char **feature_files; /* features.files, writable */
} prediction;

/* ---- reading a batch ---- */

static d9_status read_text(const prediction *self, d9_context *context, const char *path, int slot) {
    d9_status status;
    uint8_t *text = NULL;
    size_t size;
    int32_t *tokens = (int32_t *)(void *)(self->content + (size_t)slot * self->sample_bytes); /* aligned */
    D9_TRY(d9_file_read(context, path, &text, &size));
    D9_TRY(d9_predictor_encode(&self->predictor, context, path, text, size, tokens));
done:
    d9_release(context, text);
    return status;
}

static d9_status read_picture(const prediction *self, d9_context *context, const char *path, int slot) {
    d9_status status = D9_OK;
    d9_image image = {0};
    D9_TRY(d9_image_read(context, path, self->predictor.config->data.largest_picture, &image));
    D9_TRY(d9_predictor_resize(&self->predictor, context, path, &image,
                               self->content + (size_t)slot * self->sample_bytes));
    if (self->thumbnails)
        D9_TRY(d9_thumbnail_make(context, &image, self->thumbnails + (int64_t)slot * D9_THUMBNAIL_BYTES));
done:
    d9_image_free(context, &image);
    return status;
}

/* Reads samples on several threads, and sets the failure of each that cannot be read. */
static d9_status read_batch(prediction *self, int begin, int count) {
    d9_status status = D9_OK;
    d9_context *own = NULL;
    D9_TRY(D9_ALLOCATE(&self->cli->context, count, "messages", &own));
    const int threads = self->predictor.session.info.threads > 0 ? self->predictor.session.info.threads : 1;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int i = 0; i < count; i++) {
        own[i] = self->cli->context;
        const d9_cli_sample *sample = &self->samples.rows[begin + i];
        if (!sample->failure) (void)!(self->samples.texts ? read_text : read_picture)(self, &own[i], sample->path, i);
    }
    for (int i = 0; i < count; i++) {
        char *kept = NULL;
        if (!own[i].message[0]) continue;
        D9_TRY(d9_arena_copy(&self->cli->context, &self->cli->arena, own[i].message, &kept));
        self->samples.rows[begin + i].failure = kept;
    }
done:
    d9_release(&self->cli->context, own);
    return status;
}

/* ---- printing results, and predicting a batch ---- */

static void select_top_classes(prediction *self, const double *probabilities) {
    const int64_t classes = self->predictor.description->classes;
    for (int64_t c = 0; c < classes; c++) self->ranked_classes[c] = (int32_t)c;
    for (int64_t k = 0; k < self->top; k++) { /* partial selection sort; ties: the lower class index */
        int64_t best = k;
        for (int64_t c = k + 1; c < classes; c++) {
            const double difference =
                probabilities[self->ranked_classes[c]] - probabilities[self->ranked_classes[best]];
            if (difference > 0 || (difference == 0 && self->ranked_classes[c] < self->ranked_classes[best])) best = c;
        }
        const int32_t class = self->ranked_classes[best];
        self->ranked_classes[best] = self->ranked_classes[k];
        self->ranked_classes[k] = class;
    }
}

static void print_text(const prediction *self, const char *path, const double *probabilities) {
    const char *const *names = self->predictor.description->class_names;
    d9_cli_print(self->cli, "%-*s", self->name_width, path);
    for (int64_t k = 0; k < self->top; k++)
        d9_cli_print(self->cli, "  %-*s %5.1f%%", self->label_width, names[self->ranked_classes[k]],
                     100 * probabilities[self->ranked_classes[k]]);
    d9_cli_print(self->cli, "\n");
}

static void print_json_line(const prediction *self, json_t *object) { d9_cli_print_json_line(self->cli, object, 9); }

static void print_json(const prediction *self, const char *path, const double *probabilities) {
    const char *const *names = self->predictor.description->class_names;
    const int32_t first = self->ranked_classes[0];
    json_t *top = json_array();
    for (int64_t k = 0; k < self->top; k++)
        json_array_append_new(top, json_pack("{s:s, s:i, s:o}", "label", names[self->ranked_classes[k]], "class",
                                             (int)self->ranked_classes[k], "probability",
                                             d9_json_number(probabilities[self->ranked_classes[k]])));
    print_json_line(self, json_pack("{s:o, s:s, s:i, s:o, s:o}", "file", d9_cli_json_text(self->cli, path), "label",
                                    names[first], "class", (int)first, "probability",
                                    d9_json_number(probabilities[first]), "top", top));
}

/* Counts an unusable sample. Warns if there are several samples; the failure of a single one becomes the error of
 * `finish`. With --json also prints a line. */
static void report_failure(prediction *self, const d9_cli_sample *sample) {
    self->failed++;
    if (self->samples.count > 1) d9_log(&self->cli->context, D9_LOG_WARNING, "%s", sample->failure);
    if (self->options->json)
        print_json_line(self, json_pack("{s:o, s:o}", "file", d9_cli_json_text(self->cli, sample->path), "error",
                                        d9_cli_json_text(self->cli, sample->failure)));
}

/* The class with the name of the file's folder; -1: none. A folder given as DIR/ leads to paths like DIR//FILE. */
static int64_t true_class(const prediction *self, const char *path) {
    const d9_description *about = self->predictor.description;
    const char *end = strrchr(path, '/'), *begin;
    while (end && end > path && end[-1] == '/') end--;
    for (begin = end; begin && begin > path && begin[-1] != '/';) begin--;
    for (int64_t c = 0; end && c < about->classes; c++)
        if (strlen(about->class_names[c]) == (size_t)(end - begin) &&
            strncmp(about->class_names[c], begin, (size_t)(end - begin)) == 0)
            return c;
    return -1;
}

/* Keeps the tile of a sample if it is one of the first SHEET_MAX, in the order of the files or, with --worst-first,
 * from the worst on. Does nothing without a sheet. */
static void keep_tile(prediction *self, int index, int slot, const double *probabilities) {
    const char *path = self->samples.rows[index].path;
    const char *const *names = self->predictor.description->class_names;
    const int64_t first = self->ranked_classes[0], truth = true_class(self, path);
    if (!self->thumbnails) return;
    tile new = {.sort_key = self->options->worst_first ? probabilities[truth < 0 ? first : truth] : index,
                .caption = {.label = names[first],
                            .truth = truth < 0 ? NULL : names[truth],
                            .name = d9_text_file_name(path),
                            .probability = probabilities[first]}};
    const int last = self->tile_count < SHEET_MAX ? self->tile_count : SHEET_MAX - 1;
    if (self->tile_count == SHEET_MAX && !(new.sort_key < self->tiles[last].sort_key)) return;
    new.thumbnail = self->tiles[last].thumbnail; /* `allocate` made memory for the thumbnail of each entry */
    memcpy(new.thumbnail, self->thumbnails + (int64_t)slot * D9_THUMBNAIL_BYTES, D9_THUMBNAIL_BYTES);
    int at = last;
    for (; at > 0 && new.sort_key < self->tiles[at - 1].sort_key; at--) self->tiles[at] = self->tiles[at - 1];
    self->tiles[at] = new;
    self->tile_count = last + 1;
}

static d9_status write_sheet(prediction *self) {
    d9_status status = D9_OK;
    d9_context *context = &self->cli->context;
    d9_sheet sheet = {0};
    D9_TRY(d9_contact_make(context, self->tile_count, &sheet));
    for (int i = 0; i < self->tile_count; i++)
        D9_TRY(d9_contact_put(context, &sheet, i, self->tiles[i].thumbnail, &self->tiles[i].caption));
    D9_TRY(d9_sheet_write(context, &sheet, self->options->sheet));
done:
    d9_sheet_free(context, &sheet);
    return status;
}

static void keep_features(prediction *self, const char *path, int slot) {
    d9_features *kept = &self->features;
    const double *row = self->batch_features + slot * kept->width;
    for (int64_t i = 0; i < kept->width; i++) kept->rows[kept->count * kept->width + i] = (float)row[i];
    self->feature_files[kept->count++] = path;
}

/* Reads and classifies a batch, prints a line per sample, and keeps its thumbnails and features if requested. */
static d9_status predict_batch(prediction *self, int begin, int count) {
    d9_status status = D9_OK;
    const int64_t classes = self->predictor.description->classes;
    D9_TRY(read_batch(self, begin, count));
    D9_TRY(d9_predictor_run(&self->predictor, self->content, count, self->probabilities, self->batch_features));
    for (int i = 0; i < count; i++) {
        const d9_cli_sample *sample = &self->samples.rows[begin + i];
        const double *probabilities = self->probabilities + i * classes;
        if (sample->failure) {
            report_failure(self, sample);
            continue;
        }
        select_top_classes(self, probabilities);
        if (self->options->json)
            print_json(self, sample->path, probabilities);
        else
            print_text(self, sample->path, probabilities);
        keep_tile(self, begin + i, i, probabilities);
        if (self->batch_features) keep_features(self, sample->path, i);
    }
done:
    return status;
}

/* ---- command ---- */

static d9_status allocate_features(prediction *self) {
    d9_status status = D9_OK;
    d9_cli *cli = self->cli;
    d9_features *kept = &self->features;
    if (!self->options->features) return D9_OK;
    kept->width = self->predictor.features;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, BATCH * kept->width, &self->batch_features));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, self->samples.count * kept->width, &kept->rows));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, self->samples.count, &self->feature_files));
    kept->files = self->feature_files;
done:
    return status;
}

static d9_status allocate(prediction *self) {
    d9_status status = D9_OK;
    d9_cli *cli = self->cli;
    const d9_description *about = self->predictor.description;
    self->sample_bytes = d9_sample_bytes(self->predictor.session.dataset);
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, BATCH * (int64_t)self->sample_bytes, &self->content));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, BATCH * about->classes, &self->probabilities));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, about->classes, &self->ranked_classes));
    D9_TRY(allocate_features(self));
    if (!self->options->sheet) goto done;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, (int64_t)BATCH * D9_THUMBNAIL_BYTES, &self->thumbnails));
    const int count = self->samples.count < SHEET_MAX ? self->samples.count : SHEET_MAX;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, count, &self->tiles));
    for (int i = 0; i < count; i++)
        D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, D9_THUMBNAIL_BYTES, &self->tiles[i].thumbnail));
done:
    return status;
}

/* Fits the columns to the longest label, and to the longest path of at most NAME_MAX_WIDTH columns. */
static void measure_columns(prediction *self) {
    enum { NAME_MAX_WIDTH = 60 };
    for (int i = 0; i < self->samples.count; i++) {
        const int length = d9_text_columns(self->samples.rows[i].path);
        if (length > self->name_width && length <= NAME_MAX_WIDTH) self->name_width = length;
    }
    for (int64_t c = 0; c < self->predictor.description->classes; c++) {
        const int length = d9_text_columns(self->predictor.description->class_names[c]);
        if (length > self->label_width) self->label_width = length;
    }
}

/* Loads --config with --set, and writes it as YAML for the predictor. Writes nothing without --config. */
static d9_status read_config(prediction *self, d9_text *yaml) {
    d9_status status = D9_OK;
    const predict_options *options = self->options;
    const d9_cli_edits edits = {.set = options->set};
    d9_config *config = NULL;
    if (!options->config && options->set.count > 0)
        return d9_fail(&self->cli->context, D9_USAGE, "--set: needs --config, whose configuration it changes");
    if (!options->config) return D9_OK;
    D9_TRY(d9_cli_config(self->cli, options->config, &edits, NULL, &config));
    D9_TRY(d9_cli_check_output_config(self->cli, options->sheet, "--sheet", config));
    D9_TRY(d9_cli_check_output_config(self->cli, options->features, "--features", config));
    D9_TRY(d9_effective_yaml(config, yaml));
done:
    d9_config_free(&self->cli->context, config);
    return status;
}

/* Lists the samples, of the kind that the model in `file` takes. */
static d9_status find_samples(prediction *self, const d9_safetensors *file) {
    self->samples.texts = d9_description_is_of_texts(file);
    if (self->samples.texts && self->options->sheet)
        return d9_fail(&self->cli->context, D9_USAGE, "--sheet: shows images, but the model takes texts");
    return d9_cli_samples_find(self->cli, &self->options->files, &self->samples);
}

static d9_status open_model(prediction *self) {
    d9_status status = D9_OK;
    const predict_options *options = self->options;
    d9_text yaml;
    d9_predictor_options open = {
        .backend = options->backend, .precision = options->precision, .features = options->features != NULL};
    d9_safetensors *file = NULL;
    char threads[32];
    d9_text_init(&self->cli->context, &yaml);
    snprintf(threads, sizeof threads, "%lld", (long long)options->threads.value);
    if (options->threads.given) open.threads = threads;
    D9_TRY(d9_cli_model(self->cli, options->model, &open.model));
    D9_TRY(d9_cli_check_output(self->cli, options->sheet, "--sheet", open.model));
    D9_TRY(d9_cli_check_output(self->cli, options->features, "--features", open.model));
    if (options->features) D9_TRY(d9_features_check(&self->cli->context, options->features));
    if (options->worst_first && !options->sheet)
        D9_TRY(d9_fail(&self->cli->context, D9_USAGE, "--worst-first: needs --sheet, which it sorts"));
    D9_TRY(d9_cli_check_outputs(self->cli,
                                (d9_cli_output[]){{options->sheet, "--sheet"}, {options->features, "--features"}}, 2));
    D9_TRY(d9_safetensors_read(&self->cli->context, open.model, &file));
    D9_TRY(find_samples(self, file));
    for (int i = 0; i < self->samples.count; i++) {
        D9_TRY(d9_cli_check_output(self->cli, options->sheet, "--sheet", self->samples.rows[i].path));
        D9_TRY(d9_cli_check_output(self->cli, options->features, "--features", self->samples.rows[i].path));
    }
    D9_TRY(d9_file_check_writable(&self->cli->context, options->sheet));
    D9_TRY(d9_file_check_writable(&self->cli->context, options->features));
    D9_TRY(d9_cli_check_ending(self->cli, options->sheet, "--sheet", ".png", "PNG"));
    D9_TRY(read_config(self, &yaml));
    if (options->config) open.config = d9_text_get(&yaml);
    open.file = file;
    open.samples = self->samples.count;
    D9_TRY(d9_predictor_open(&self->cli->context, &open, &self->predictor));
    const int64_t classes = self->predictor.description->classes, top = options->top.given ? options->top.value : 1;
    self->top = top < classes ? top : classes;
done:
    d9_safetensors_free(&self->cli->context, file);
    d9_text_free(&yaml);
    return status;
}

static d9_status finish(prediction *self) {
    d9_status status = D9_OK;
    d9_context *context = &self->cli->context;
    const int count = self->samples.count;
    if (self->options->sheet && self->tile_count > 0) D9_TRY(write_sheet(self));
    if (self->options->features && self->features.count > 0)
        D9_TRY(d9_features_write(context, self->options->features, &self->features));
    if (self->options->sheet && count - self->failed > SHEET_MAX)
        d9_log(context, D9_LOG_WARNING, "%s: shows the %s %d of %d images", self->options->sheet,
               self->options->worst_first ? "worst" : "first", SHEET_MAX, count - self->failed);
    if (self->failed > 0 && count == 1) return d9_fail(context, D9_DATA, "%s", self->samples.rows[0].failure);
    if (self->failed > 0) return d9_fail(context, D9_DATA, "%d of %d files could not be read", self->failed, count);
done:
    return status;
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    prediction self = {.cli = cli, .options = options};
    D9_TRY(open_model(&self));
    D9_TRY(allocate(&self));
    measure_columns(&self);
    for (int begin = 0; begin < self.samples.count; begin += BATCH) {
        const int left = self.samples.count - begin;
        D9_TRY(predict_batch(&self, begin, left < BATCH ? left : BATCH));
    }
    D9_TRY(finish(&self));
done:
    if (self.predictor.context) d9_predictor_close(&self.predictor);
    return status;
}

static const d9_example examples[] = {
    {"the three most probable classes of an image", "dawn9 predict runs/first picture.png --top 3"},
    {"all images of a folder, on one sheet", "dawn9 predict runs/first pictures --sheet sheet.png"},
    {"every .txt file of a folder, by a model of texts", "dawn9 predict runs/reviews texts"},
    {"features of each image, for other programs", "dawn9 predict runs/first pictures --features pictures.npy"},
    {0},
};

const d9_command d9_command_predict = {
    .name = "predict",
    .doc = "Classify images or texts with a saved model",
    .about = "Images are resized to the model's input size; of a text the last words count, as many as\n"
             "the model was trained with. Only the model file is needed: it contains the configuration, the class\n"
             "names, and the normalisation or vocabulary. An unreadable file costs a warning; the others are\n"
             "classified, and the exit status is 3.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(predict_options),
    .computes = true,
    .run = run,
};
