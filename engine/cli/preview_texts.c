/* dawn9 data preview of a dataset of texts: prints the first ten training texts, or the first ten lines of 20 words of
 * a corpus, as tokens and as words. */
#include "cli/data.h"
#include "train/session.h"

enum { SHOWN = 10, STREAM_TOKENS = 20 /* of a corpus, in each line */ };

static void add_tokens(const d9_dataset *dataset, const int32_t *tokens, int64_t count, d9_text *text) {
    d9_text_add(text, " ");
    for (int64_t t = 0; t < count; t++) d9_text_add(text, " %d", tokens[t]);
    d9_text_add(text, "\n ");
    for (int64_t t = 0; t < count; t++) {
        d9_text_add(text, " ");
        d9_text_add_escaped(text, dataset->vocabulary.words[tokens[t]]);
    }
    d9_text_add(text, "\n");
}

static void add_text(const d9_dataset *dataset, int64_t i, d9_text *text) {
    const int32_t *tokens = (const int32_t *)(const void *)dataset->train.images + i * dataset->width;
    int64_t count = dataset->width;
    while (count > 1 && tokens[count - 1] == D9_TOKEN_PAD) count--;
    d9_text_add_escaped(text, dataset->train.names[i]);
    d9_text_add(text, ": ");
    d9_text_add_escaped(text, dataset->class_names[dataset->train.labels[i]]);
    d9_text_add(text, ", %lld tokens and %lld of padding\n", (long long)count, (long long)(dataset->width - count));
    add_tokens(dataset, tokens, count, text);
}

static void add_texts(const d9_dataset *dataset, d9_text *text) {
    d9_text_add(text, "%lld training texts, %lld test texts, %lld tokens\n", (long long)dataset->train.count,
                (long long)dataset->test.count, (long long)dataset->vocabulary.count);
    for (int64_t i = 0; i < dataset->train.count && i < SHOWN; i++) add_text(dataset, i, text);
}

/* Adds the numbers of words and tokens, and the first tokens of the training part. */
static void add_stream(const d9_dataset *dataset, d9_text *text) {
    const int32_t *tokens = (const int32_t *)(const void *)dataset->train.images;
    d9_text_add(text, "%lld training words, %lld for validation, %lld to test, %lld tokens\n",
                (long long)dataset->train.count, (long long)dataset->valid.count, (long long)dataset->test.count,
                (long long)dataset->vocabulary.count);
    for (int64_t at = 0; at < dataset->train.count && at < SHOWN * STREAM_TOKENS; at += STREAM_TOKENS) {
        const int64_t left = dataset->train.count - at;
        add_tokens(dataset, tokens + at, left < STREAM_TOKENS ? left : STREAM_TOKENS, text);
    }
}

d9_status d9_data_preview_texts(d9_cli *cli, const d9_config *config, const d9_data_options *options) {
    d9_status status;
    d9_dataset *dataset = NULL;
    d9_text text;
    d9_text_init(&cli->context, &text);
    if (options->out || options->filters)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "data preview prints the texts of %s; --out and --filters draw images",
                       config->data.dataset));
    D9_TRY(d9_config_dataset(&cli->context, config, NULL, NULL, &dataset));
    if (dataset->stream)
        add_stream(dataset, &text);
    else
        add_texts(dataset, &text);
    status = d9_cli_print_text(cli, &text);
done:
    d9_text_free(&text);
    d9_dataset_free(&cli->context, dataset);
    return status;
}
