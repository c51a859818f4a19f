/* Parts for training, validation and test: folders train/, test/ and val/, draws by file name; tables of labels and
 * their errors. The split of the real chest X-rays is tested if DAWN9_XRAY_CSV names their table. */
#include "core/system.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/split.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { SIDE = 8, CLASSES = 2 };

/* Writes `images` pictures in each of the classes ant and bee of FOLDER/PART, each of one colour, from `colour` on. */
static void write_part(const char *folder, const char *part, int images, uint8_t colour) {
    static const char *const classes[] = {"ant", "bee"};
    uint8_t pixels[SIDE * SIDE * 3];
    char name[128];
    for (int c = 0; c < CLASSES; c++) {
        snprintf(name, sizeof name, "%s/%s", part, classes[c]);
        run_make_directory(folder, name);
        for (int i = 0; i < images; i++) {
            snprintf(name, sizeof name, "%s/%s/%d.png", part, classes[c], i);
            memset(pixels, colour + CLASSES * i + c, sizeof pixels);
            OK(d9_png_write(&context, run_path(folder, name), pixels, SIDE, SIDE));
        }
    }
}

/* Checks the number of training images, and the number and the first colour of the images that epochs are evaluated on.
 */
static void check_parts(const char *folder, d9_dataset_options options, int64_t train, int64_t count, uint8_t colour) {
    options.name = "folder", options.image_size = SIDE;
    d9_dataset *dataset = run_data(folder, options);
    assert_ints(dataset->train.count, train, dataset->test.count, count);
    assert_int_equal(dataset->test.images[0], colour);
}

TEST_WITH(const char *folder, a_validation_part_stands_beside_the_test_part_or_replaces_it, run_folder_set_up) {
    const d9_dataset_options plain = {.validation = 0}, validation = {.validation = 1};
    write_part(folder, "train", 5, 10);
    write_part(folder, "Valid", 2, 100);
    check_parts(folder, plain, 10, 4, 100); /* instead of test/ */
    check_parts(folder, validation, 10, 4, 100);
    write_part(folder, "test", 3, 200);
    check_parts(folder, plain, 10, 6, 200);
    check_parts(folder, validation, 10, 4, 100);
    check_parts(folder, (d9_dataset_options){.validation = 77}, 10, 4, 100); /* any number but 0 selects it */

    /* A model whose validation images were drawn from train/ is evaluated on such images. */
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder", .image_size = SIDE});
    d9_provenance drawn = dataset->provenance;
    drawn.validation = 2, drawn.validation_limit = UINT64_MAX / 2;
    dataset =
        run_data(folder, (d9_dataset_options){.name = "folder", .image_size = SIDE, .validation = 2, .known = &drawn});
    assert_int_equal(dataset->train.count + dataset->test.count, 10);

    run_make_directory(folder, "val/ant");
    run_data_rejected(folder, (d9_dataset_options){.name = "folder"}, D9_DATA, "/val /Valid");
}

/* Without the validation part of its training a model is not evaluated on images drawn from train/ instead; nor is it
 * trained if all files of that part are damaged. */
TEST_WITH(const char *folder, a_lost_validation_part_is_not_replaced, run_folder_set_up) {
    d9_dataset_options options = {.name = "folder", .image_size = SIDE, .validation = 1, .skip_damaged = true};
    write_part(folder, "train", 5, 10);
    write_part(folder, "val", 1, 100);
    write_part(folder, "test", 3, 200);
    d9_provenance known = run_data(folder, options)->provenance;
    known.trained_validation = 1;
    run_write_text(folder, "val/ant/0.png", "damaged");
    run_write_text(folder, "val/bee/0.png", "damaged");
    for (int lacks_test = 0; lacks_test < 2; lacks_test++) {
        options.known = NULL;
        run_data_rejected(folder, options, D9_DATA, lacks_test ? "test set is left" : "validation set is left");
        options.known = &known;
        run_data_rejected(folder, options, D9_DATA, "validation part data.validation=0");
        if (!lacks_test) run_folder_remove(run_path(folder, "test"));
    }
    write_part(folder, "test", 3, 200);
    run_folder_remove(run_path(folder, "val"));
    run_data_rejected(folder, options, D9_DATA, "validation part data.validation=0");
    known.trained_validation = 0; /* the user asks for training images; d9_description_warn_validation warns */
    assert_int_equal(run_data(folder, options)->test.count, 1);
}

TEST_WITH(const char *folder, empty_classes_are_left_out_on_request, run_folder_set_up) {
    const d9_dataset_options strict = {.name = "folder"}, lenient = {.skip_empty = true};
    write_part(folder, "train", 5, 10);
    write_part(folder, "test", 3, 200);
    run_make_directory(folder, "train/__MACOSX/ant"); /* foreign and without images: left out */
    run_make_directory(folder, "test/lost+found");
    run_make_directory(folder, "train/bee/@eaDir/0.png");
    check_parts(folder, (d9_dataset_options){.skip_empty = false}, 10, 6, 200);
    run_make_directory(folder, "train/cow");
    run_data_rejected(folder, strict, D9_DATA, "train/cow --skip-empty");
    check_parts(folder, lenient, 10, 6, 200);
    run_make_directory(folder, "test/cow");
    check_parts(folder, lenient, 10, 6, 200);
    run_make_directory(folder, "train/cow/calf"); /* images may be in it */
    run_data_rejected(folder, (d9_dataset_options){.name = "folder", .skip_empty = true}, D9_DATA, "train/cow/calf");
}

/* `wanted`: the test images, as " CLASS/NAME " one after another; `warned`: words of the last warning, "" for none. */
static void check_drawn(const char *folder, const char *wanted, const char *warned) {
    char name[64];
    size_t length = 0;
    const test_warnings *warnings = test_catch_warnings(&context);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder", .image_size = SIDE});
    for (int64_t i = 0; i < dataset->test.count; i++) {
        length += (size_t)snprintf(name, sizeof name, " %s ", dataset->test.names[i] + strlen(folder) + 1);
        if (!strstr(wanted, name)) fail_msg("%s is a test image", name);
    }
    assert_int_equal(length, strlen(wanted));
    assert_true(*warned ? strstr(warnings->last, warned) != NULL : !warnings->count);
}

/* A program in another language, with its own Philox and FNV-1a, computed the draws of these names. If the result
 * changes, D9_SPLIT_RULE must change. */
TEST_WITH(const char *folder, images_follow_from_their_names, run_folder_set_up) {
    write_part(folder, ".", 16, 10);
    check_drawn(folder, " ant/0.png  ant/1.png  ant/6.png  ant/10.png  ant/13.png  bee/0.png  bee/6.png ", "");
    /* ant/2 to ant/5 draw 0.88, 0.33, 0.39 and 0.41, none of them below a sixth: ant/3, the lowest, is for the test */
    static const int others[] = {0, 1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    char name[32];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "ant/%d.png", others[i]);
        remove(run_path(folder, name));
    }
    check_drawn(folder, " ant/3.png  bee/0.png  bee/6.png ", "1 of 2 classes");
    assert_true(d9_is_test_draw(UINT64_MAX / 6 - 1) && !d9_is_test_draw(UINT64_MAX / 6 + 1));
}

static int opened;
static int count_opening(void *user, const char *path, int flags, int mode) {
    opened++;
    return d9_system_default()->open(user, path, flags, mode);
}

TEST_WITH(const char *folder, an_interrupt_ends_reading, run_folder_set_up) {
    const volatile sig_atomic_t number = SIGTERM;
    d9_system system = *d9_system_default();
    write_part(folder, ".", 6, 10);
    run_write(folder, "ant/3.png", "damaged", 7); /* must not be reported: it is not read */
    system.open = count_opening;
    context.system = &system, context.interrupt = &number;
    run_data_rejected(folder, (d9_dataset_options){.name = "folder"}, D9_SIGTERM, "interrupted");
    assert_int_equal(opened, 0);
}

/* A folder named train is a part only if it contains class folders; otherwise it is a class. */
TEST_WITH(const char *folder, a_class_may_be_named_train, run_folder_set_up) {
    write_part(folder, ".", 6, 10);
    assert_int_equal(rename(run_path(folder, "ant"), run_path(folder, "train")), 0);
    run_make_directory(folder, "train/@eaDir");
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder"});
    assert_string_equal(dataset->class_names[1], "train");
}

TEST_WITH(const char *folder, a_foreign_folder_with_images_is_a_class, run_folder_set_up) {
    write_part(folder, ".", 6, 10);
    run_make_directory(folder, "lost+found");
    assert_int_equal(rename(run_path(folder, "ant"), run_path(folder, "lost+found")), 0);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder"});
    assert_string_equal(dataset->class_names[1], "lost+found");
}

/* An evaluation numbers class folders like the model's classes; some classes may have no folder. */
TEST_WITH(const char *folder, class_folders_are_classes_of_the_model_by_name, run_folder_set_up) {
    static const char *const names[] = {"bee", "cow", "ant"};
    d9_provenance known = {.rule = D9_SPLIT_RULE, .classes = 3, .class_names = names};
    char path[RUN_PATH_BYTES + 8];
    d9_dataset_options options = {.name = "folder", .path = path, .image_size = SIDE, .known = &known};
    int64_t counts[3];
    for (int own = 0; own < 2; own++) {
        const int64_t each = own ? 2 : 5;
        write_part(folder, own ? "own/train" : ".", 5, 10);
        if (own) write_part(folder, "own/test", 2, 100);
        snprintf(path, sizeof path, "%s%s", folder, own ? "/own" : "");
        d9_dataset *dataset = run_data(folder, options);
        assert_int_equal(dataset->classes, 3);
        assert_string_equal(dataset->class_names[1], "cow");
        d9_dataset_class_counts(dataset, &dataset->test, counts);
        assert_ints(counts[0], each, counts[1], 0, counts[2], each);
        known.classes = 2;
        run_data_rejected(folder, options, D9_DATA, "ant model");
        known.classes = 3;
    }
}

static const d9_dataset_options one_label = {.name = "labelled", .file_column = "file", .label_column = "label"};
static const d9_dataset_options several_labels = {.name = "labelled",
                                                  .multi_label = true,
                                                  .file_column = "file",
                                                  .label_column = "label",
                                                  .separator = "|",
                                                  .no_label = "No Finding",
                                                  .shares = {0.7, 0.1, 0.2}};

typedef struct reading {
    d9_faults faults;
    d9_label_table table;
} reading;

static void free_arena(void *arena) { d9_arena_free(&context, arena); }

/* Reads `text` as the contents of labels.csv. The results in `r` are freed when the test ends. */
static d9_status read_text(reading *r, const d9_dataset_options *options, const char *text) {
    char *copy;
    d9_arena *arena = test_keep(test_memory(sizeof *arena), free_arena);
    *r = (reading){.faults = {.context = &context, .file = "labels.csv", .arena = arena}};
    OK(d9_arena_copy(&context, arena, text, &copy));
    return d9_labels_read(&r->faults, options, copy, strlen(copy), &r->table);
}

static void check_row(const reading *r, int row, const char *file, int32_t label) {
    assert_string_equal(r->table.rows[row].file, file);
    assert_int_equal(r->table.rows[row].label, label);
}

/* The table has quoted cells, CRLF and LF, a byte order mark, an empty line and an unused column, " label". Class names
 * are sorted by bytes. */
TEST(tables_with_one_label_per_file_are_read) {
    reading r;
    OK(read_text(&r, &one_label,
                 "\xef\xbb\xbf\"label\", label,file\r\niris,1,a.png\r\n\r\n\"to \"\"be\"\"\",\"2,3\",\"b,c.png\"\n"
                 "Iris,,d e.png"));
    assert_ints(r.faults.count, 0, r.table.count, 3);
    assert_int_equal(r.table.classes, 3);
    assert_string_equal(r.table.class_names[0], "Iris");
    check_row(&r, 0, "a.png", 1);
    check_row(&r, 1, "b,c.png", 2);
    check_row(&r, 2, "d e.png", 0);
    assert_ints(r.table.rows[1].line, 4, r.table.rows[2].line, 5);
}

TEST(several_labels_are_bits) {
    reading r;
    OK(read_text(&r, &several_labels, "file,label\na,Mass|Edema\nb,No Finding\nc,\nd,Mass\n"));
    assert_ints(r.faults.count, 0, r.table.classes, 2);
    assert_string_equal(r.table.class_names[0], "Edema");
    check_row(&r, 0, "a", 3);
    check_row(&r, 1, "b", 0);
    check_row(&r, 2, "c", 0);
    check_row(&r, 3, "d", 2);
}

TEST(spaces_around_labels_and_names_of_columns_do_not_count) {
    reading r;
    OK(read_text(&r, &several_labels, "file,label\na, Mass | Edema\t\nb, No Finding \nc,  \nd,Mass \n"));
    assert_ints(r.faults.count, 0, r.table.classes, 2);
    const int32_t bits[] = {3, 0, 0, 2};
    for (int i = 0; i < 4; i++) assert_int_equal(r.table.rows[i].label, bits[i]);
    OK(read_text(&r, &one_label, "file\t, label \na,to be \nb, to be\nc,iris\nd, \n"));
    assert_ints(r.faults.count, 1, r.table.classes, 2, r.table.rows[0].label, 1);
    assert_int_equal(r.table.rows[1].label, 1);
    assert_non_null(strstr(r.faults.fault[0].text, "no label"));
}

/* Groups "1" and " 1" are one, so their images are in one part. " train" and "test " name parts. */
TEST(spaces_around_groups_and_parts_do_not_count) {
    d9_dataset_options options = one_label;
    reading r;
    options.group_column = "group";
    OK(read_text(&r, &options, "file,label,group\na,x,1\nb,y,2 \nc,x, 1\nd,y,\t2\n"));
    assert_ints(r.table.groups, 2, r.faults.count, 0);
    assert_ints(r.table.rows[0].part, r.table.rows[2].part, r.table.rows[1].part, r.table.rows[3].part);
    options.group_column = NULL, options.split_column = "split";
    OK(read_text(&r, &options, "file,label,split\na,x, train\nb,y,test \n"));
    assert_ints(r.faults.count, 0, r.table.rows[1].part, D9_PART_TEST);
}

/* Files of the same name in the folders of 90 patients: version 2 of the rule draws them together, version 3 one by
 * one. `find` writes paths with ./, which changes nothing. */
TEST(equal_file_names_are_drawn_by_their_folders) {
    int parts[180];
    for (int row = 0; row < 3; row++) {
        const bool by_name = row == 0, dots = row == 2;
        d9_dataset_options options = one_label;
        const d9_provenance known = {.rule = 2, .classes = 0};
        reading r;
        int tested[2] = {0};
        if (by_name) options.known = &known;
        d9_text *text = test_text();
        d9_text_add(text, "file,label\n");
        for (int i = 0; i < 180; i++)
            d9_text_add(text, "%sp%d/%s.png,%s\n", dots ? "./" : "", i / 2, i % 2 ? "side" : "front",
                        i % 4 < 2 ? "x" : "y");
        OK(read_text(&r, &options, d9_text_get(text)));
        for (int i = 0; i < 180; i++) {
            const int part = r.table.rows[i].part;
            tested[i % 2] += part == D9_PART_TEST;
            assert_true(!dots || part == parts[i]);
            parts[i] = part;
        }
        /* by path 15 of 90 are expected, with a deviation of 3.5; by name 0, 45 or 90 */
        for (int view = 0; view < 2; view++) assert_int_equal(!by_name, tested[view] > 2 && tested[view] < 30);
    }
}

/* A semicolon or comma in a label causes a warning only if no cell has the separator, "|". */
TEST(another_separator_is_warned_of) {
    static const struct {
        const char *text, *says;
    } rows[] = {{"file,label\na,x\nb,x;y\n", "labels.csv:3: one label has a \";\""},
                {"file,label\na,\nb,\"x, y\"\n", "labels.csv:3: one label has a \",\""},
                {"file,label\na,x;y\nb,x|y\n", ""},
                {"file,label\na,x\nb,y\n", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        reading r;
        const test_warnings *warnings = test_catch_warnings(&context);
        OK(read_text(&r, &several_labels, rows[i].text));
        assert_true(*rows[i].says ? strstr(warnings->last, rows[i].says) != NULL : !warnings->count);
    }
}

/* Labels keep the numbers that the model gave them; labels unknown to it are faults. */
TEST(labels_keep_the_numbers_of_the_model) {
    static const char *const names[] = {"Mass", "Edema"};
    const d9_provenance known = {.rule = D9_SPLIT_RULE, .classes = 2, .class_names = names};
    d9_dataset_options options = several_labels;
    reading r;
    options.known = &known;
    OK(read_text(&r, &options, "file,label\na,Edema\nb,Hernia\n"));
    assert_ints(r.faults.count, 1, r.table.count, 1);
    check_row(&r, 0, "a", 2);
    assert_non_null(strstr(r.faults.fault[0].text, "Hernia"));
}

/* Every faulty row is in the list, with its line; the first and the last row are read. */
TEST(faulty_rows_are_listed) {
    static const struct {
        const char *row, *says;
    } rows[] = {{"a.png,Mass,1", NULL},
                {"b.png,Mass", "2 cells"},
                {"b.png,Mass,1,2", "4 cells"},
                {"b.png,\"Mass,1", "quoted"},
                {"b.png,Ma\"ss,1", "quotation mark"},
                {"b.png,\"Mass\" ,1", "behind"},
                {"b.png,Ma\rss,1", "carriage return"},
                {",Mass,1", "no file"},
                {"./,Mass,1", "no file"},
                {"b.png,Mass,", "no group"},
                {"b.png,Mass||Edema,1", "empty"},
                {"b.png,Mass|Mass,1", "twice"},
                {"b.png,Mass|No Finding,1", "No Finding"},
                {"c.png,Edema,2", NULL}};
    enum { ROWS = sizeof rows / sizeof *rows };
    d9_dataset_options options = several_labels;
    reading r;
    int found = 0;
    options.group_column = "group";
    d9_text *text = test_text();
    d9_text_add(text, "file,label,group\n");
    for (int i = 0; i < ROWS; i++) d9_text_add(text, "%s\n", rows[i].row);
    OK(read_text(&r, &options, d9_text_get(text)));
    assert_ints(r.faults.count, ROWS - 2, r.table.count, 2);
    assert_rejection(d9_faults_report(&r.faults, false), D9_DATA, "12 errors");
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].says) continue;
        const d9_fault *fault = &r.faults.fault[found++];
        if (fault->line != i + 2 || !strstr(fault->text, rows[i].says))
            fail_msg("row %s: line %lld, %s", rows[i].row, (long long)fault->line, fault->text);
    }
}

TEST(invalid_tables_are_rejected) {
    static const struct {
        const char *text, *says;
        bool several;
    } rows[] = {{"file,lable\na,b\n", "did you mean lable", false},
                {"file,label,label\na,b,c\n", "2 times", false},
                {"file,label , label\na,b,c\n", "2 times", false},
                {"file,label\n", "no row", false},
                {"file;label\na;x\n", "semicolons", false},
                {"file\tlabel\na\tx\n", "tabs", false},
                {"", ":1: an empty line", false},
                {"file,label\na,b\nc,b\n", "1 different label (b)", false},
                {"file,label\na,\xff\n", "UTF-8", false},
                {"file,label\na,No Finding\n", "0 different labels", true},
                {"file,label\n,0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17|18|19|20|21|22|23|24|25|26|27|28|29|30|31\n",
                 "32 different labels", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        reading r;
        assert_rejection(read_text(&r, rows[i].several ? &several_labels : &one_label, rows[i].text), D9_DATA,
                         rows[i].says);
    }
    reading r;
    OK(read_text(&r, &several_labels,
                 "file,label\na,0|1|2|3|4|5|6|7|8|9|10|11|12|13|14|15|16|17|18|19|20|21|22|23|24|25|26|27|28|29|30\n"));
    assert_ints(r.table.classes, 31, r.table.rows[0].label, INT32_MAX);
}

static void count_parts(const d9_label_table *table, int64_t counts[D9_PARTS]) {
    memset(counts, 0, D9_PARTS * sizeof *counts);
    for (int64_t i = 0; i < table->count; i++) counts[table->rows[i].part]++;
}

/* Spellings of the same number, such as 1 and 01, are one group, but only if all groups are numbers. */
TEST(groups_are_compared_as_numbers) {
    static const struct {
        const char *groups[4];
        int64_t count;
    } rows[] = {{{"0", "00", "1", "01"}, 2}, {{"0", "00", "1", "x"}, 4}};
    for (int i = 0; i < 2; i++) {
        d9_dataset_options options = several_labels;
        reading r;
        options.group_column = "group";
        d9_text *text = test_text();
        d9_text_add(text, "file,label,group\n");
        for (int row = 0; row < 4; row++) d9_text_add(text, "%d.png,Mass,%s\n", row, rows[i].groups[row]);
        OK(read_text(&r, &options, d9_text_get(text)));
        assert_ints(r.table.groups, rows[i].count, r.faults.count, 0);
    }
}

/* Ten unsorted groups, 7, 1 and 2 for the three parts. 10 follows 9 among numbers; among names "p10" precedes "p2". */
TEST(groups_are_divided_in_their_order) {
    for (int names = 0; names < 2; names++) {
        d9_dataset_options options = several_labels;
        reading r;
        options.group_column = "group";
        d9_text *text = test_text();
        d9_text_add(text, "file,label,group\n");
        for (int i = 0; i < 20; i++) d9_text_add(text, "%d.png,Mass,%s%d\n", i, names ? "p" : "", 1 + i * 7 % 10);
        OK(read_text(&r, &options, d9_text_get(text)));
        assert_ints(r.table.groups, 10, r.table.count, 20);
        for (int i = 0; i < 20; i++) {
            const int number = 1 + i * 7 % 10, rank = !names ? number : number == 1 ? 1 : number == 10 ? 2 : number + 1;
            const int part = rank <= 7 ? D9_PART_TRAIN : rank == 8 ? D9_PART_VALID : D9_PART_TEST;
            if (r.table.rows[i].part != part) fail_msg("group %d is in part %d", number, r.table.rows[i].part);
        }
    }
}

TEST(a_column_says_the_part) {
    d9_dataset_options options = one_label;
    reading r;
    options.split_column = "split";
    options.group_column = "group";
    OK(read_text(&r, &options, "file,label,split,group\na,x,train,1\nb,y,Val,2\nc,x,test,3\nd,x,dev,4\ne,x,test,1\n"));
    assert_ints(r.table.count, 4, r.faults.count, 2);
    assert_ints(r.table.rows[0].part, D9_PART_TRAIN, r.table.rows[1].part, D9_PART_VALID, r.table.rows[2].part,
                D9_PART_TEST);
    assert_non_null(strstr(r.faults.fault[0].text, "dev"));
    assert_non_null(strstr(r.faults.fault[1].text, "line 2")); /* group 1 is in two parts */
}

TEST(the_real_x_rays_are_split_as_published) {
    const char *path = getenv("DAWN9_XRAY_CSV");
    d9_dataset_options options = several_labels;
    d9_arena arena = {0};
    reading r = {.faults = {.context = &context, .file = path, .arena = &arena}};
    size_t size;
    int64_t counts[D9_PARTS];
    if (!path) skip_for("xray-table", "DAWN9_XRAY_CSV names no file");
    options.file_column = "Image Index";
    options.label_column = "Finding Labels";
    options.group_column = "Patient ID";
    char *text = (char *)run_read_file(path, &size);
    OK(d9_labels_read(&r.faults, &options, text, size, &r.table));
    count_parts(&r.table, counts);
    assert_ints(r.faults.count, 0, r.table.classes, 14, r.table.groups, 30805);
    assert_int_equal(r.table.count, 112120);
    assert_ints(counts[D9_PART_TRAIN], 87306, counts[D9_PART_VALID], 7616, counts[D9_PART_TEST], 17198);
    d9_arena_free(&context, &arena);
}

/* ---- pictures ---- */

static void write_picture(const char *folder, const char *name, uint8_t value) {
    uint8_t pixels[8 * 8 * 3];
    memset(pixels, value, sizeof pixels);
    OK(d9_png_write(&context, run_path(folder, name), pixels, 8, 8));
}

static void write_pictures(const char *folder) {
    run_make_directory(folder, "more");
    for (int i = 0; i < 10; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d.png", i % 2 ? "more/" : "", i);
        write_picture(folder, name, (uint8_t)(20 * i));
    }
}

static const d9_dataset_options on_disk = {.name = "labelled", .image_size = 8, .split_column = "split"};

/* Rows name pictures by path or by file name. Validation images are evaluated instead of test images only with
 * data.validation. */
TEST_WITH(const char *folder, rows_name_pictures_by_path_or_file_name, run_folder_set_up) {
    static const char text[] = "file,label,split\n0.png,a,train\nmore/1.png,b,train\n3.png,b,train\n2.png,a,valid\n"
                               "4.png,a,test\n5.png,b,test\n";
    d9_dataset_options options = on_disk;
    d9_dataset *dataset;
    write_pictures(folder);
    run_make_directory(folder, "@eaDir"); /* its copies of pictures are not used */
    write_picture(folder, "@eaDir/3.png", 7);
    run_write_text(folder, "labels.csv", text);
    const test_warnings *warnings = test_catch_warnings(&context);
    dataset = run_data(folder, options);
    assert_words(warnings->last, "labels.csv 1 not data.validation=1");
    assert_ints(dataset->train.count, 3, dataset->test.count, 2, dataset->valid.count, 0);
    assert_ints(dataset->test.images[0], 80, dataset->test.labels[0], 0, dataset->test.images[192], 100);
    assert_int_equal(dataset->test.labels[1], 1);
    options.validation = 1;
    dataset = run_data(folder, options);
    assert_ints(dataset->train.count, 3, dataset->test.count, 1, dataset->test.images[0], 40);
    const d9_provenance known = dataset->provenance;
    options.known = &known;
    run_write_text(folder, "labels.csv", "file,label,split\n0.png,a,train\nmore/1.png,b,train\n4.png,a,test\n");
    run_data_rejected(folder, options, D9_DATA, "labels.csv validation part data.validation=0");
}

/* Errors: a missing picture, a picture with two rows, and a name that two pictures have. --skip-damaged leaves out the
 * missing one. A link to a folder above gives no picture a second name. */
TEST_WITH(const char *folder, rows_that_match_no_or_several_pictures_are_rejected, run_folder_set_up) {
    static const char text[] = "file,label,split\n./0.png,a,train\n1.png,b,train\n4.png,a,test\n9.jpg,a,test\n";
    d9_dataset_options options = on_disk;
    d9_dataset *dataset;
    write_pictures(folder);
    assert_int_equal(symlink("..", run_path(folder, "more/up")), 0);
    run_write_text(folder, "labels.csv", text);
    run_data_rejected(folder, options, D9_DATA, "labels.csv:5: no picture 9.jpg");
    options.skip_damaged = true;
    dataset = run_data(folder, options);
    assert_ints(dataset->train.count, 2, dataset->test.count, 1);
    run_write(folder, "twice.csv", text, strlen(text) - 1 - strlen("9.jpg,a,test"));
    OK(d9_file_append(&context, run_path(folder, "twice.csv"), "more/1.png,b,test\n", 18));
    options.table = "twice.csv";
    run_data_rejected(folder, options, D9_DATA, "twice.csv:5: more/1.png is in line 3");
    run_make_directory(folder, "again");
    write_picture(folder, "again/1.png", 7);
    run_data_rejected(folder, options, D9_DATA, "twice.csv:3: the name 1.png again/1.png more/1.png");
}

/* Rejected with advice: paths that do not begin below the folder, and groups none of which is for training. */
TEST_WITH(const char *folder, wrong_paths_and_groups_are_rejected_with_advice, run_folder_set_up) {
    static const char one_group[] = "file,label,patient\n0.png,a,NaN\n2.png,b,NaN\n";
    static const char *const files[] = {"../0.png", "/0.png", "more\\1.png"};
    d9_dataset_options options = on_disk;
    options.split_column = NULL;
    write_pictures(folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[100];
        snprintf(text, sizeof text, "file,label,patient\n%s,a,1\n2.png,b,1\n", files[i]);
        run_write_text(folder, "labels.csv", text);
        run_data_rejected(folder, options, D9_DATA, "labels.csv:2: begin below");
    }
    run_write_text(folder, "labels.csv", one_group);
    options.group_column = "patient";
    run_data_rejected(folder, options, D9_DATA, "train shares 1 group");
}

/* Both test images have the same labels, so no label has an area under the curve; the labels of the validation images
 * differ. */
TEST_WITH(const char *folder, labels_of_the_test_part_need_an_area, run_folder_set_up) {
    static const char text[] =
        "file,label,split\n0.png,a,train\n1.png,b,train\n2.png,a,test\n3.png,a,test\n4.png,a|b,valid\n5.png,,valid\n";
    d9_dataset_options options = on_disk;
    options.multi_label = true;
    write_pictures(folder);
    run_write_text(folder, "labels.csv", text);
    run_data_rejected(folder, options, D9_DATA, "labels.csv: the area under the curve");
    options.validation = 1;
    run_data(folder, options);
}

/* Without columns for groups and the split, data.validation takes that many images out of the training images, as for
 * folders. */
TEST_WITH(const char *folder, validation_images_are_drawn_from_a_plain_table, run_folder_set_up) {
    d9_dataset_options options = on_disk;
    d9_dataset *dataset;
    options.split_column = NULL;
    write_pictures(folder);
    d9_text *text = test_text();
    d9_text_add(text, "file,label\n");
    for (int i = 0; i < 10; i++) d9_text_add(text, "%d.png,%s\n", i, i % 4 < 2 ? "a" : "b");
    run_write_text(folder, "labels.csv", d9_text_get(text));
    dataset = run_data(folder, options);
    const int64_t trained = dataset->train.count, tested = dataset->test.count;
    assert_int_equal(trained + tested, 10);
    options.validation = 3;
    dataset = run_data(folder, options);
    assert_ints(dataset->train.count, trained - 3, dataset->test.count, 3);
    assert_int_equal(dataset->root_bytes, strlen(folder) + 1);
    assert_memory_equal(dataset->test.names[0], folder, strlen(folder));
}

/* The message says what took the images of class c out of the training: the user's column, or the division of groups.
 */
TEST_WITH(const char *folder, a_class_that_is_not_trained_on_is_rejected, run_folder_set_up) {
    static const char text[] =
        "file,label,split,group\n0.png,a,train,1\n1.png,b,train,2\n2.png,a,test,3\n3.png,c,valid,4\n";
    d9_dataset_options options = on_disk;
    write_pictures(folder);
    run_write_text(folder, "labels.csv", text);
    run_data_rejected(folder, options, D9_DATA, "class c column split");
    options.split_column = NULL, options.group_column = "group";
    run_data_rejected(folder, options, D9_DATA, "class c data.shares");
}

/* data.table has a default, so messages about other datasets must not name it. */
TEST(only_labelled_datasets_are_named_by_their_table) {
    const d9_dataset labelled = {.name = "labelled"}, folder = {.name = "folder"};
    assert_string_equal(d9_dataset_source_name(&labelled, "t.csv"), "t.csv");
    assert_string_equal(d9_dataset_source_name(&labelled, NULL), "labels.csv");
    assert_string_equal(d9_dataset_source_name(&folder, "labels.csv"), "folder");
}

/* A table that was trained on is rejected without the column that gave its parts, because its test part is unknown, and
 * without rows of the test part. */
TEST_WITH(const char *folder, the_table_of_the_training_needs_its_groups_and_parts, run_folder_set_up) {
    static const char text[] =
        "file,label,split,group\n0.png,a,train,1\n1.png,b,train,2\n2.png,a,test,3\n3.png,b,test,4\n",
                      untested[] = "file,label,split,group\n0.png,a,train,1\n1.png,b,train,2\n2.png,a,valid,3\n",
                      lacks[] = "file,label\n0.png,a\n1.png,b\n2.png,a\n3.png,b\n";
    d9_dataset_options options = on_disk;
    write_pictures(folder);
    for (int groups = 0; groups < 2; groups++) {
        if (groups) options.split_column = NULL, options.group_column = "group";
        options.known = NULL;
        run_write_text(folder, "labels.csv", text);
        const d9_provenance known = run_data(folder, options)->provenance;
        options.known = &known;
        run_data(folder, options);
        run_write_text(folder, "labels.csv", untested);
        if (!groups) {
            const d9_provenance others = {.rule = D9_SPLIT_RULE};
            run_data_rejected(folder, options, D9_DATA, "evaluate");
            options.known = &others; /* the model has seen none of the images, so all are evaluated */
            assert_int_equal(run_data(folder, options)->test.count, 3);
            options.known = &known;
        }
        run_write_text(folder, "labels.csv", lacks);
        run_data_rejected(folder, options, D9_DATA, groups ? "labels.csv column group" : "labels.csv column split");
    }
}

/* One of ten groups is the validation part. A training without data.validation does not read its image; an evaluation
 * of images that did not train the model includes it. */
TEST_WITH(const char *folder, divided_groups_that_trained_nothing_are_evaluated_whole, run_folder_set_up) {
    static const char *const names[] = {"a", "b"};
    const d9_provenance known = {.rule = D9_SPLIT_RULE, .classes = 2, .class_names = names};
    d9_dataset_options options = on_disk;
    options.split_column = NULL, options.group_column = "group";
    write_pictures(folder);
    d9_text *text = test_text();
    d9_text_add(text, "file,label,group\n");
    for (int i = 0; i < 10; i++) d9_text_add(text, "%d.png,%s,%d\n", i, i % 2 ? "a" : "b", i);
    run_write_text(folder, "labels.csv", d9_text_get(text));
    d9_dataset *dataset = run_data(folder, options);
    assert_ints(dataset->train.count, 7, dataset->test.count, 2);
    d9_provenance trained = dataset->provenance;
    options.known = &trained; /* the images of the training: only the test part */
    assert_int_equal(run_data(folder, options)->test.count, 2);
    options.known = &known;
    assert_int_equal(run_data(folder, options)->test.count, 10);
}

/* Options of tables are rejected for other datasets, except default values, and except in an evaluation: older
 * trainings ignored them. */
TEST_WITH(const char *folder, keys_of_tables_are_only_for_tables, run_folder_set_up) {
    static const char *const keys[] = {"table",        "file_column", "label_column", "group_column",
                                       "split_column", "separator",   "no_label"};
    enum { KEYS = sizeof keys / sizeof *keys };
    write_part(folder, ".", 6, 10);
    for (int i = 0; i <= KEYS; i++) {
        d9_dataset_options options = {.name = "folder", .image_size = SIDE};
        const char **const texts[KEYS] = {&options.table,        &options.file_column,  &options.label_column,
                                          &options.group_column, &options.split_column, &options.separator,
                                          &options.no_label};
        const d9_provenance known = {.rule = D9_SPLIT_RULE};
        if (i < KEYS) *texts[i] = "patient";
        if (i == KEYS) memcpy(options.shares, (double[]){0.5, 0.2, 0.3}, sizeof options.shares);
        run_data_rejected(folder, options, D9_USAGE, i < KEYS ? keys[i] : "shares");
        assert_words(context.message, "labelled");
        options.known = &known;
        run_data(folder, options);
    }
    run_data(folder, (d9_dataset_options){.name = "folder", .table = "labels.csv", .shares = {0.7, 0.1, 0.2}});
}

/* A table without training images of the model needs no column of groups or parts: the model is evaluated on all of it.
 */
TEST_WITH(const char *folder, another_table_needs_no_groups_and_parts, run_folder_set_up) {
    static const char text[] = "file,label\n0.png,a\n1.png,b\n2.png,a|b\n3.png,\n", wrong[] = "files,label\n0.png,a\n";
    static const char *const names[] = {"a", "b"};
    const d9_provenance known = {.rule = D9_SPLIT_RULE, .classes = 2, .class_names = names};
    d9_dataset_options options = on_disk;
    options.multi_label = true;
    options.split_column = NULL;
    options.group_column = "patient";
    write_pictures(folder);
    run_write_text(folder, "labels.csv", text);
    run_data_rejected(folder, options, D9_DATA, "no column patient");
    options.known = &known;
    assert_int_equal(run_data(folder, options)->test.count, 4);
    options.split_column = "split";
    assert_int_equal(run_data(folder, options)->test.count, 4);
    run_write_text(folder, "labels.csv", wrong);
    run_data_rejected(folder, options, D9_DATA, "no column file");
}
