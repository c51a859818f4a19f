/* dawn9 generate: prints text that a language model writes, one word after another. */
#include "cli/cli.h"
#include "core/system.h"
#include "data/dataset.h"
#include "exchange/description.h"
#include "exchange/model.h"

#include <string.h>

enum { WORDS_DEFAULT = 1000, WORDS_A_LINE = 20 };

typedef struct generate_options {
    const char *model, *start, *temperature;
    d9_flag_integer words;
    d9_cli_edits edits; /* only its seed, backend, precision and threads are options of this command */
} generate_options;

static const d9_flag flags[] = {
    {"MODEL", D9_FLAG_ARGUMENT, offsetof(generate_options, model),
     .doc = "model.safetensors of a run, or the run's folder"},
    {"words", D9_FLAG_INTEGER, offsetof(generate_options, words), "N", .minimum = 1, .maximum = 1000000000,
     .doc = "number of words; default 1000"},
    {"temperature", D9_FLAG_TEXT, offsetof(generate_options, temperature), "R",
     .doc = "divisor of the logits, at least 0.001; default 1. Below 1 likely words become more likely"},
    {"start", D9_FLAG_TEXT, offsetof(generate_options, start), "TEXT",
     .doc = "words that come first; default: one word, drawn evenly"},
    {"seed", D9_FLAG_INTEGER, offsetof(generate_options, edits.seed), "N", .minimum = 0, .maximum = D9_SEED_MAX,
     .doc = "seed of the draws; default 1"},
    {"backend", D9_FLAG_TEXT, offsetof(generate_options, edits.backend), "B",
     .doc = "auto, or one that `dawn9 devices` lists"},
    {"precision", D9_FLAG_TEXT, offsetof(generate_options, edits.precision), "P",
     .doc = "auto, f64, f32, tf32 (cuda), bf16 or fp16"},
    {"threads", D9_FLAG_INTEGER, offsetof(generate_options, edits.threads), "N", .minimum = 0, .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {.type = D9_FLAG_END},
};

/* A model that reads one word after another. */
typedef struct generator {
    d9_cli *cli;
    d9_session session;
    const d9_vocabulary *words;
    double *logits; /* (vocabulary), of the next word */
    double temperature;
    uint64_t seed;
    int64_t printed;
} generator;

/* Makes the dataset of the network: one stream of two words. Every step reads the first word, which feed_word sets. */
static d9_status make_two_word_stream(d9_context *context, const d9_description *description, d9_dataset **made) {
    d9_status status;
    d9_dataset *dataset = NULL;
    d9_split two = {.count = 2};
    D9_TRY(D9_ALLOCATE(context, 1, "the dataset", &dataset));
    *dataset = (d9_dataset){.name = "corpus",
                            .height = 1,
                            .width = 1,
                            .channels = 1,
                            .classes = description->classes,
                            .class_names = description->class_names,
                            .tokens = true,
                            .stream = true,
                            .vocabulary = description->vocabulary,
                            .std = {1}};
    D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, 2 * sizeof(int32_t), &two.images));
    D9_TRY(D9_ARENA_ALLOCATE(context, &dataset->arena, 2, &two.labels));
    dataset->train = dataset->test = dataset->valid = two;
    *made = dataset;
    dataset = NULL;
done:
    d9_dataset_free(context, dataset);
    return status;
}

static d9_status open_model(generator *self, const generate_options *chosen, const char *model,
                            const d9_description *description, d9_config **config) {
    d9_status status;
    d9_context *context = &self->cli->context;
    d9_dataset *dataset = NULL;
    D9_TRY(d9_cli_model_config(self->cli, model, description, &chosen->edits, config));
    if (!(*config)->model->stream)
        D9_TRY(d9_fail(context, D9_USAGE, "%s: model.name %s does not predict the next word", model,
                       (*config)->model->name));
    (*config)->eval.streams = (*config)->train.batch_size = 1;
    D9_TRY(make_two_word_stream(context, description, &dataset));
    const d9_session_options open = {.config = *config,
                                     .seed = (uint64_t)(*config)->seed,
                                     .process_start = self->cli->process_start,
                                     .dataset = dataset,
                                     .program = {.eval_only = true, .logits = true},
                                     .no_train = true};
    dataset = NULL; /* now owned by the session */
    D9_TRY(d9_session_open(context, &open, &self->session));
    D9_TRY(d9_session_initialize(&self->session));
    D9_TRY(d9_model_read(&self->session, model));
    D9_TRY(d9_session_zero(&self->session, D9_BUFFER_EVAL_CARRY));
done:
    d9_dataset_free(context, dataset);
    return status;
}

/* ---- reading and drawing words ---- */

static void print_word(generator *self, int32_t token) {
    const char end = ++self->printed % WORDS_A_LINE == 0 ? '\n' : ' ';
    d9_cli_print(self->cli, "%s%c", self->words->words[token], end);
}

/* Feeds a word to the network, and sets `logits` to those of the word that follows it. */
static d9_status feed_word(generator *self, int32_t token) {
    d9_status status;
    d9_session *session = &self->session;
    const d9_graph *graph = &session->program.eval;
    const int32_t stream[] = {token, 0};
    D9_TRY(d9_session_write(session, D9_BUFFER_EVAL_IMAGES, stream));
    D9_TRY(session->backend->run(session->context, session->eval_plan, 0));
    D9_TRY(d9_session_read_value(session, &graph->values[graph->logits], self->logits));
done:
    return status;
}

/* Draws a word from softmax(logits / temperature) by `drawn`, a random number in [0, 1). Overwrites the logits. */
static int32_t draw_word(generator *self, double drawn) {
    const int64_t count = self->words->count;
    const int32_t best = d9_argmax(self->logits, count);
    const double largest = self->logits[best];
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += self->logits[i] = exp((self->logits[i] - largest) / self->temperature);
    double left = drawn * sum;
    for (int64_t i = 0; i < count; i++)
        if ((left -= self->logits[i]) < 0) return (int32_t)i;
    return best;
}

/* Prints the words of --start and feeds them to the network. A word that it does not know becomes "<unk>", or is
 * rejected if the model has no such token. */
static d9_status feed_start(generator *self, const char *start) {
    d9_status status;
    static const char spaces[] = " \t\n\v\f\r";
    d9_word_index index = {0};
    int32_t *tokens = NULL;
    int64_t count = 0;
    char *word;
    D9_TRY(D9_ALLOCATE(&self->cli->context, strlen(start) + 1, "words", &tokens));
    for (int64_t i = 0; i < self->words->count; i++)
        D9_TRY(d9_word_index_add(&self->cli->context, &index, self->words->words[i]));
    for (const char *at = start + strspn(start, spaces); *at; at += strspn(at, spaces)) {
        const size_t size = strcspn(at, spaces);
        D9_TRY(d9_arena_format(&self->cli->context, &self->cli->arena, &word, "%.*s", (int)size, at));
        tokens[count] = d9_word_index_find(&index, word);
        if (tokens[count] < 0) tokens[count] = d9_word_index_find(&index, "<unk>");
        if (tokens[count++] < 0)
            D9_TRY(d9_fail(&self->cli->context, D9_USAGE, "--start: the model has neither the word \"%s\" nor <unk>",
                           word));
        at += size;
    }
    for (int64_t i = 0; i < count; i++) {
        print_word(self, tokens[i]);
        D9_TRY(feed_word(self, tokens[i]));
    }
done:
    d9_word_index_free(&self->cli->context, &index);
    d9_release(&self->cli->context, tokens);
    return status;
}

/* Prints `count` drawn words, fewer if standard output cannot be written. */
static d9_status print_words(generator *self, int64_t count) {
    d9_status status = D9_OK;
    for (int64_t i = 0; i < count && self->cli->output_error == 0; i++) {
        const double drawn = d9_word_draw(self->seed, i);
        const int32_t token =
            self->printed == 0 ? (int32_t)(drawn * (double)self->words->count) : draw_word(self, drawn);
        print_word(self, token);
        if (i + 1 < count) D9_TRY(feed_word(self, token));
    }
    if (self->printed % WORDS_A_LINE) d9_cli_print(self->cli, "\n");
done:
    return status;
}

/* ---- the command ---- */

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const generate_options *chosen = options;
    const char *model;
    d9_config *config = NULL;
    d9_description *description = NULL;
    generator self = {.cli = cli, .temperature = 1};
    if (chosen->temperature && (!d9_text_to_real(chosen->temperature, &self.temperature) ||
                                !(self.temperature >= 0.001 && self.temperature <= 1e6)))
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "--temperature %s: must be 0.001 to 1e6", chosen->temperature));
    D9_TRY(d9_cli_model(cli, chosen->model, &model));
    D9_TRY(d9_description_read(&cli->context, model, &description));
    D9_TRY(open_model(&self, chosen, model, description, &config));
    self.words = &description->vocabulary;
    self.seed = chosen->edits.seed.given ? (uint64_t)chosen->edits.seed.value : 1;
    D9_TRY(D9_ALLOCATE(&cli->context, self.words->count, "logits", &self.logits));
    if (chosen->start) D9_TRY(feed_start(&self, chosen->start));
    D9_TRY(print_words(&self, chosen->words.given ? chosen->words.value : WORDS_DEFAULT));
done:
    d9_release(&cli->context, self.logits);
    if (self.session.context) d9_session_close(&self.session);
    d9_config_free(&cli->context, config);
    d9_description_free(&cli->context, description);
    return status;
}

static const d9_example examples[] = {
    {"100 words that follow a beginning", "dawn9 generate runs/words --start \"the war\" --words 100"},
    {0},
};

const d9_command d9_command_generate = {
    .name = "generate",
    .doc = "Write text word by word with a language model",
    .about = "Each word is drawn from the model's probabilities of the next one. The same seed gives the same words.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(generate_options),
    .computes = true,
    .run = run,
};
