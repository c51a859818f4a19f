/* Texts as tokens: words, ranks, cuts and padding, computed by hand; folders of texts, corpora, and rejected texts. */
#include "core/machine.h"
#include "core/system.h"
#include "data/classes.h"
#include "data/dataset.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <omp.h>

/* Writes ten reviews. Words of the training part and their counts: good 4; film, bad 3; a, the 2; isn't, plot, br,
 * cast, \303\211t\303\251 1. Words of equal counts are in the order of their first occurrence. */
static void write_reviews(const char *folder) {
    static const char *const reviews[][2] = {
        {"train/neg/0_1.txt", "A film,\nthe BAD film."},
        {"train/neg/10_2.txt",
         "bad plot;bad<br />cast"}, /* read after 2_1: files are ordered by number, not by bytes */
        {"train/neg/2_1.txt", "isn't a good"},
        {"train/pos/0_9.txt", "good"},
        {"train/pos/1_8.txt", "Good good the film! \303\211t\303\251"},
        {"test/neg/0_1.txt", "the plot was bad"},
        {"test/neg/1_1.txt", ""},
        {"test/pos/0_7.txt", "\t...\r\n"},
        {"test/pos/1_7.txt", "good good good good good bad"},
        {"test/pos/2_7.txt", "GOOD/film_cast~'"},
    };
    for (size_t i = 0; i < sizeof reviews / sizeof *reviews; i++) run_write_text(folder, reviews[i][0], reviews[i][1]);
}

/* The tokens of the first file whose path contains `name`; *label gets its class unless `label` is NULL. */
static const int32_t *find_tokens(const d9_dataset *dataset, const char *name, int32_t *label) {
    const d9_split *splits[] = {&dataset->train, &dataset->test};
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < splits[s]->count; i++) {
            if (!strstr(splits[s]->names[i], name)) continue;
            if (label) *label = splits[s]->labels[i];
            return (const int32_t *)(const void *)splits[s]->images + i * dataset->width;
        }
    fail_msg("no file %s", name);
    return NULL;
}

typedef struct expected {
    const char *name;
    int32_t label, tokens[8];
} expected;

static void check_tokens(const d9_dataset *dataset, const expected *rows, int count) {
    for (int r = 0; r < count; r++) {
        int32_t label;
        const int32_t *tokens = find_tokens(dataset, rows[r].name, &label);
        assert_int_equal(label, rows[r].label);
        for (int64_t t = 0; t < dataset->width; t++)
            if (tokens[t] != rows[r].tokens[t])
                fail_msg("%s: token %d is %d, must be %d", rows[r].name, (int)t, tokens[t], rows[r].tokens[t]);
    }
}

static const char *const ranked[] = {"<pad>", "<start>", "<unknown>", "<unused>", "good", "film", "bad",
                                     "a",     "the",     "isn't",     "plot",     "br",   "cast", "\303\211t\303\251"};
enum { WORDS = sizeof ranked / sizeof *ranked };

static void check_vocabulary(const d9_vocabulary *vocabulary, int count) {
    assert_int_equal(vocabulary->count, count);
    for (int i = 0; i < count; i++) assert_string_equal(vocabulary->words[i], ranked[i]);
}

TEST_WITH(const char *folder, reviews_become_the_tokens_expected_by_hand, run_folder_set_up) {
    static const expected rows[] = {
        {"train/neg/0_1", 0, {1, 7, 5, 8, 6, 5, 0}}, {"train/neg/10_2", 0, {1, 6, 10, 6, 11, 12, 0}},
        {"train/neg/2_1", 0, {1, 9, 7, 4, 0, 0, 0}}, {"train/pos/0_9", 1, {1, 4, 0, 0, 0, 0, 0}},
        {"train/pos/1_8", 1, {1, 4, 4, 8, 5, 2, 0}}, {"test/neg/0_1", 0, {1, 8, 10, 2, 6, 0, 0}},
        {"test/neg/1_1", 0, {1, 0, 0, 0, 0, 0, 0}},  {"test/pos/0_7", 1, {1, 0, 0, 0, 0, 0, 0}},
        {"test/pos/1_7", 1, {1, 4, 4, 4, 4, 4, 6}},  {"test/pos/2_7", 1, {1, 4, 5, 12, 2, 0, 0}},
    };
    static const expected cut[] = {{"test/pos/1_7", 1, {4, 4, 6}},
                                   {"train/neg/0_1", 0, {8, 6, 5}},
                                   {"train/neg/2_1", 0, {9, 7, 4}},
                                   {"test/pos/0_7", 1, {1, 0, 0}}};
    write_reviews(folder);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "imdb", .length = 7, .vocabulary_size = 13});
    assert_ints(dataset->train.count, 5, dataset->test.count, 5);
    assert_true(dataset->tokens && dataset->mean[0] == 0 && dataset->std[0] == 1 && d9_sample_bytes(dataset) == 28);
    check_vocabulary(&dataset->vocabulary, 13);
    check_tokens(dataset, rows, 10);

    dataset = run_data(folder, (d9_dataset_options){.name = "imdb", .length = 3});
    check_vocabulary(&dataset->vocabulary, WORDS);
    check_tokens(dataset, cut, 4);
}

/* Other files of the archive are ignored; reviews are also found in aclImdb, the folder within the archive. */
TEST_WITH(const char *folder, imdb_ignores_files_that_are_no_reviews, run_folder_set_up) {
    run_data_rejected(folder, (d9_dataset_options){.name = "imdb"}, D9_DATA, "train/neg --data fetch");
    write_reviews(run_path(folder, "aclImdb"));
    run_write_text(folder, "aclImdb/train/unsup/0_0.txt", "good");
    run_write_text(folder, "aclImdb/train/labeledBow.feat", "9 0:9");
    run_write_text(folder, "aclImdb/train/neg/notes.txt", "good");
    run_write_text(folder, "aclImdb/imdb.vocab", "the");
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "imdb", .length = 5});
    assert_ints(dataset->train.count, 5, dataset->test.count, 5);
    assert_int_equal(dataset->classes, 2);
    assert_string_equal(dataset->class_names[0], "neg");
}

/* Reviews other than the published ones are used, but d9_dataset_verify reports them. */
TEST_WITH(const char *folder, other_reviews_have_another_checksum, run_folder_set_up) {
    d9_dataset described;
    const d9_dataset_options options = {.name = "imdb", .validation = 5000};
    OK(d9_dataset_describe(&context, &options, &described));
    assert_ints(described.train.count, 20000, described.test.count, 5000, described.width, 150);
    assert_ints(described.vocabulary.count, 30000, described.classes, 2);
    write_reviews(folder);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "imdb", .check = true});
    d9_context_clear(&context);
    assert_int_equal(d9_dataset_verify(&context, dataset), D9_DATA);
    assert_words(context.message, "train/neg: SHA-1 daf9ba12ea9b fetch imdb");
    d9_context_clear(&context);
}

/* The vocabulary of a model replaces that of the training part. */
TEST_WITH(const char *folder, words_of_a_model_are_kept, run_folder_set_up) {
    const char *const words[] = {"<pad>", "<start>", "<unknown>", "<unused>", "film", "the"};
    const d9_vocabulary model = {6, words};
    static const expected rows[] = {{"train/neg/0_1", 0, {1, 2, 4, 5, 2, 4, 0}}, {"test/neg/0_1", 0, {1, 5, 2, 2, 2}}};
    char built[D9_DIGEST_DIGITS + 1], given[D9_DIGEST_DIGITS + 1];
    write_reviews(folder);
    d9_dataset *dataset =
        run_data(folder, (d9_dataset_options){.name = "imdb", .length = 7, .known_vocabulary = &model});
    assert_int_equal(dataset->vocabulary.count, 6);
    check_tokens(dataset, rows, 2);
    d9_dataset_digest(dataset, given);
    dataset = run_data(folder, (d9_dataset_options){.name = "imdb", .length = 7});
    d9_dataset_digest(dataset, built);
    assert_string_not_equal(built, given);
}

/* The number of threads changes no token. Another seed changes the split, but the most frequent word keeps its token.
 */
TEST_WITH(const char *folder, texts_are_split_by_seed_and_not_by_threads, run_folder_set_up) {
    char name[64], text[64], digest[2][D9_DIGEST_DIGITS + 1];
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "%s/%d.txt", i % 2 ? "ham" : "spam", i);
        snprintf(text, sizeof text, "word%d is word%d", i, 60 - i);
        run_write_text(folder, name, text);
    }
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "text", .threads = 1});
    const d9_split held = dataset->test;
    const int64_t held_out = held.count;
    assert_true(dataset->drawn && held_out > 3 && held_out < 20 && dataset->train.count == 60 - held_out);
    assert_ints(dataset->width, 150, dataset->height * dataset->channels, 1);
    d9_dataset_digest(dataset, digest[0]);
    const int32_t *tokens = find_tokens(dataset, "spam/0.txt", NULL);
    assert_int_equal(tokens[2], 4); /* "is" */
    const d9_provenance known = dataset->provenance;
    assert_true(known.rule == D9_SPLIT_RULE && known.trained_count > 40);

    dataset = run_data(folder, (d9_dataset_options){.name = "text", .threads = 2, .known = &known});
    d9_dataset_digest(dataset, digest[1]);
    assert_string_equal(digest[0], digest[1]);
    assert_true(!dataset->unseen && dataset->test.count == held_out);

    dataset = run_data(folder, (d9_dataset_options){.name = "text", .seed = 7});
    int32_t label;
    const int32_t *other = find_tokens(dataset, "ham/1.txt", &label);
    assert_ints(other[2], 4, label, 0);
    int64_t again = 0;
    for (int64_t i = 0; i < held_out; i++)
        for (int64_t k = 0; k < dataset->test.count; k++) again += strcmp(held.names[i], dataset->test.names[k]) == 0;
    assert_true(again < held_out && again < dataset->test.count);
}

TEST_WITH(const char *folder, validation_texts_replace_the_test_part, run_folder_set_up) {
    write_reviews(folder);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "imdb", .length = 4, .validation = 2});
    assert_ints(dataset->train.count, 3, dataset->test.count, 2);
    check_vocabulary(&dataset->vocabulary, WORDS);
    for (int64_t i = 0; i < 2; i++) assert_non_null(strstr(dataset->test.names[i], "/train/"));
}

/* A folder with this text must be rejected, and with skip_damaged must be loaded without the text. */
static void check_damaged(const char *folder, const char *text, size_t size, const char *words) {
    run_write(folder, "spam/2.txt", text, size);
    run_data_rejected(folder, (d9_dataset_options){.name = "text"}, D9_DATA, words);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "text", .skip_damaged = true});
    assert_int_equal(dataset->train.count + dataset->test.count, 7);
}

TEST_WITH(const char *folder, damaged_texts_are_rejected, run_folder_set_up) {
    static const char *const names[] = {"ham/1.txt",  "ham/2.txt",  "ham/3.txt",  "ham/4.txt",
                                        "spam/1.txt", "spam/2.txt", "spam/3.txt", "spam/4.txt"};
    enum { LONG = 1 << 20 };
    char *word = test_memory(LONG);
    memset(word, 'x', LONG);
    for (int i = 0; i < 8; i++) run_write_text(folder, names[i], names[i]);
    check_damaged(folder, "a\0b", 3, "spam/2.txt: 1 zero");
    check_damaged(folder, "caf\351", 4, "spam/2.txt: UTF-8");
    check_damaged(folder, word, LONG, "spam/2.txt: word 1048576 1000");
    check_damaged(folder, word, 1001, "spam/2.txt: word 1001 1000 Chinese");
    run_write(folder, "spam/2.txt", word, 1000);
    run_data(folder, (d9_dataset_options){.name = "text"});
}

TEST_WITH(const char *folder, options_of_images_and_texts_are_told_apart, run_folder_set_up) {
    write_reviews(folder);
    run_data_rejected(folder, (d9_dataset_options){.name = "imdb", .image_size = 64}, D9_USAGE,
                      "data.image_size: imdb texts");
    run_data_rejected(folder, (d9_dataset_options){.name = "imdb", .normalize = D9_NORMALIZE_UNIT}, D9_USAGE,
                      "data.normalize");
    run_data_rejected(folder, (d9_dataset_options){.name = "text", .largest_picture = 2}, D9_USAGE,
                      "data.largest_picture");
    run_data_rejected(folder, (d9_dataset_options){.name = "folder", .length = 20}, D9_USAGE,
                      "data.length: folder images");
    run_data_rejected(folder, (d9_dataset_options){.name = "synthetic", .vocabulary_size = 20}, D9_USAGE,
                      "data.vocabulary");
    run_data_rejected(folder, (d9_dataset_options){.name = "imdb", .length = -1}, D9_USAGE, "data.length -1 1");
    run_data_rejected(folder, (d9_dataset_options){.name = "imdb", .vocabulary_size = 4}, D9_USAGE,
                      "data.vocabulary 4 5");
    run_data_rejected(folder, (d9_dataset_options){.name = "text", .streams = 20}, D9_USAGE, "eval.streams: text");
    run_data_rejected(folder, (d9_dataset_options){.name = "synthetic", .streams = 9}, D9_USAGE, "eval.streams");
    run_data(folder, (d9_dataset_options){.name = "imdb", .image_size = 32, .streams = 10});
}

static void check_stream(const d9_split *split, const int32_t *tokens, int count) {
    assert_int_equal(split->count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(((const int32_t *)(const void *)split->images)[i], tokens[i]);
        assert_int_equal(split->labels[i], 0);
    }
}

TEST_WITH(const char *folder, a_corpus_is_a_stream_of_words, run_folder_set_up) {
    static const char *const words[] = {"The", "cat", "<eos>", "=", "the", "dog,", "<unk>"};
    static const int32_t train[] = {0, 1, 2, 2, 3, 1, 3, 2}, valid[] = {4, 1, 2}, test[] = {4, 5, 2, 6, 2};
    const char *const known[] = {"<eos>", "<unk>", "cat"}, *const less[] = {"<eos>", "cat"};
    const d9_vocabulary model = {3, known}, without = {2, less};
    static const int32_t by_model[] = {1, 2, 0, 0, 1, 2, 1, 0};
    run_write_text(folder, "train.txt", "The\tcat\n\n = cat\v\f=\r\n");
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus"}, D9_DATA, "valid.txt --data");
    run_write_text(folder, "valid.txt", "the cat");
    run_write_text(folder, "wikitext-2/wiki.test.tokens", "the dog,\n<unk>\n");
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "corpus"});
    assert_true(dataset->stream && dataset->tokens && d9_sample_bytes(dataset) == 4);
    check_stream(&dataset->train, train, 8);
    check_stream(&dataset->valid, valid, 3);
    check_stream(&dataset->test, test, 5);
    assert_ints(dataset->vocabulary.count, 7, dataset->classes, 7);
    for (int i = 0; i < 7; i++) assert_string_equal(dataset->vocabulary.words[i], words[i]);

    dataset = run_data(folder, (d9_dataset_options){.name = "wikitext2", .known_vocabulary = &model});
    check_stream(&dataset->train, by_model, 8);
    d9_context_clear(&context);
    dataset = run_data(folder, (d9_dataset_options){.name = "wikitext2", .check = true});
    assert_rejection(d9_dataset_verify(&context, dataset), D9_DATA, "train.txt: SHA-1 863f29c46ef9 fetch wikitext2");
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus", .known_vocabulary = &without}, D9_DATA,
                      "train.txt The <unk>");
    dataset = run_data(folder, (d9_dataset_options){.name = "corpus", .validation = 1}); /* evaluates valid.txt */
    assert_ptr_equal(dataset->test.images, dataset->valid.images);
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus", .image_size = 9}, D9_USAGE,
                      "data.image_size corpus");
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus", .vocabulary_size = 20}, D9_USAGE,
                      "data.vocabulary 20: corpus");
    run_write_text(folder, "valid.txt", "");
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus"}, D9_DATA, "valid.txt: empty");
    run_write_text(folder, "valid.txt", "caf\351");
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus"}, D9_DATA, "valid.txt: UTF-8");
    char word[1002];
    memset(word, 'x', 1001);
    word[1001] = 0;
    run_write_text(folder, "valid.txt", word);
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus"}, D9_DATA, "valid.txt: byte 0: 1000 Chinese");
    run_write_text(folder, "valid.txt", word + 1);
    run_data(folder, (d9_dataset_options){.name = "corpus"});
}

/* A byte order mark at the beginning of a file belongs to no word. */
TEST_WITH(const char *folder, a_byte_order_mark_is_no_word, run_folder_set_up) {
    static const char marked[] = "\xef\xbb\xbfhello there", *const names[] = {"train.txt", "valid.txt", "test.txt"};
    static const char *const parts[] = {"train/a/0.txt", "train/b/0.txt", "test/a/0.txt", "test/b/0.txt"};
    static const int32_t stream[] = {0, 1, 2};
    for (int i = 0; i < 4; i++) run_write_text(folder, parts[i], i % 2 ? marked : marked + 3);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "text", .length = 3});
    const int32_t *tokens = (const int32_t *)(const void *)dataset->train.images;
    assert_memory_equal(tokens, tokens + 3, 3 * sizeof *tokens);
    for (int i = 0; i < 3; i++) run_write_text(folder, names[i], i == 1 ? marked + 3 : marked);
    dataset = run_data(folder, (d9_dataset_options){.name = "corpus"});
    check_stream(&dataset->train, stream, 3);
    check_stream(&dataset->valid, stream, 3);
    run_write_text(folder, "valid.txt", "\xef\xbb\xbf");
    run_data_rejected(folder, (d9_dataset_options){.name = "corpus"}, D9_DATA, "valid.txt: empty");
}

/* Errors of a folder of texts ask for texts, not for images. */
TEST_WITH(const char *folder, broken_folders_of_texts_are_rejected, run_folder_set_up) {
    run_write_text(folder, "loose.txt", "good");
    run_data_rejected(folder, (d9_dataset_options){.name = "text"}, D9_DATA, "1 texts CLASS/text.txt");
    run_make_directory(folder, "ham");
    run_data_rejected(folder, (d9_dataset_options){.name = "text"}, D9_DATA, "ham texts (.txt)");
    run_write_text(folder, "ham/1.txt", "good");
    run_data_rejected(folder, (d9_dataset_options){.name = "text"}, D9_DATA, "1 2 CLASS/text.txt");
}

static int team; /* number of threads that decoded the file */

static d9_status count_team(d9_context *context, const d9_dataset_options *options, const d9_dataset *dataset,
                            d9_class_file *file, uint8_t *sample) {
    (void)context, (void)options, (void)dataset, (void)file, (void)sample;
    team = omp_get_num_threads();
    return D9_OK;
}

/* OpenMP's own default, from the affinity mask or OMP_NUM_THREADS, may exceed the CPU quota of a container. */
TEST(files_are_decoded_on_the_default_number_of_threads) {
    const d9_file_kind kind = {.sample = "text", .samples = "texts", .decode = count_team};
    const d9_dataset_options options = {.name = "text"};
    d9_class_file file = {.path = "a/text.txt"};
    d9_class_files list = {1, &file};
    d9_dataset dataset = {.height = 1, .width = 1, .channels = 1, .classes = 1};
    d9_arena arena = {0};
    const int before = omp_get_max_threads();
    omp_set_num_threads(d9_default_threads() + 1);
    const d9_status status = d9_class_files_decode(&context, &arena, &options, &kind, &list, 1, &dataset);
    omp_set_num_threads(before);
    OK(status);
    assert_int_equal(team, d9_default_threads());
    d9_arena_free(&context, &arena), d9_arena_free(&context, &dataset.arena);
}
