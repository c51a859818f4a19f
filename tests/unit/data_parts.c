/* The folders of a user's own split: train/ beside test/ and val/, and folders without images. */
#include "core/system.h"
#include "data/dataset.h"
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
        OK(d9_directory_make(&context, run_path(folder, name)));
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
    d9_dataset_free(&context, dataset);
}

TEST_WITH(const char *folder, a_validation_part_is_beside_or_instead_of_the_test, run_folder_set_up,
          run_folder_tear_down) {
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
    d9_dataset_free(&context, dataset);
    drawn.validation = 2, drawn.validation_limit = UINT64_MAX / 2;
    dataset =
        run_data(folder, (d9_dataset_options){.name = "folder", .image_size = SIDE, .validation = 2, .known = &drawn});
    assert_int_equal(dataset->train.count + dataset->test.count, 10);
    d9_dataset_free(&context, dataset);

    OK(d9_directory_make(&context, run_path(folder, "val/ant")));
    run_data_rejected(folder, (d9_dataset_options){.name = "folder"}, D9_DATA, "/val /Valid");
}

TEST_WITH(const char *folder, empty_classes_are_left_out_on_request, run_folder_set_up, run_folder_tear_down) {
    const d9_dataset_options strict = {.name = "folder"}, lenient = {.skip_empty = true};
    write_part(folder, "train", 5, 10);
    write_part(folder, "test", 3, 200);
    OK(d9_directory_make(&context, run_path(folder, "train/__MACOSX/ant"))); /* foreign: always left out */
    OK(d9_directory_make(&context, run_path(folder, "test/lost+found")));
    OK(d9_directory_make(&context, run_path(folder, "train/bee/@eaDir/0.png")));
    check_parts(folder, (d9_dataset_options){.skip_empty = false}, 10, 6, 200);
    OK(d9_directory_make(&context, run_path(folder, "train/cow")));
    run_data_rejected(folder, strict, D9_DATA, "train/cow --skip-empty");
    check_parts(folder, lenient, 10, 6, 200);
    OK(d9_directory_make(&context, run_path(folder, "test/cow")));
    check_parts(folder, lenient, 10, 6, 200);
    OK(d9_directory_make(&context, run_path(folder, "train/cow/calf"))); /* images may be in it */
    run_data_rejected(folder, (d9_dataset_options){.name = "folder", .skip_empty = true}, D9_DATA, "train/cow/calf");
}

static void keep_warning(void *user, d9_log_level level, const char *line) {
    if (level == D9_LOG_WARNING) snprintf(user, 300, "%s", line);
}

/* `wanted`: the test images, as " CLASS/NAME " one after another; `warned`: words of the last warning, "" for none. */
static void check_drawn(const char *folder, const char *wanted, const char *warned) {
    char name[64], line[300] = "";
    size_t length = 0;
    context.log = keep_warning, context.log_user = line;
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder", .image_size = SIDE});
    context.log = NULL, context.log_user = NULL;
    for (int64_t i = 0; i < dataset->test.count; i++) {
        length += (size_t)snprintf(name, sizeof name, " %s ", dataset->test.names[i] + strlen(folder) + 1);
        if (!strstr(wanted, name)) fail_msg("%s is a test image", name);
    }
    assert_int_equal(length, strlen(wanted));
    assert_true(*warned ? strstr(line, warned) != NULL : !*line);
    d9_dataset_free(&context, dataset);
}

/* Another program, which has Philox and FNV-1a in another language, computed the draws of these names. If the result
 * changes, D9_SPLIT_RULE must change. */
TEST_WITH(const char *folder, the_names_draw_these_test_images, run_folder_set_up, run_folder_tear_down) {
    write_part(folder, ".", 16, 10);
    check_drawn(folder, " ant/0.png  ant/1.png  ant/6.png  ant/10.png  ant/13.png  bee/0.png  bee/6.png ", "");
    /* ant/2 to ant/5 draw 0.88, 0.33, 0.39 and 0.41, none of them below a sixth: the lowest is for the test */
    static const int others[] = {0, 1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    char name[32];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(name, sizeof name, "ant/%d.png", others[i]);
        remove(run_path(folder, name));
    }
    check_drawn(folder, " ant/3.png  bee/0.png  bee/6.png ", "in 1 of 2 classes");
    assert_true(d9_is_test_draw(UINT64_MAX / 6 - 1) && !d9_is_test_draw(UINT64_MAX / 6 + 1));
}

static int opened;
static int count_opening(void *user, const char *path, int flags, int mode) {
    opened++;
    return d9_system_default()->open(user, path, flags, mode);
}

TEST_WITH(const char *folder, an_interrupt_ends_reading, run_folder_set_up, run_folder_tear_down) {
    const volatile sig_atomic_t number = SIGTERM;
    d9_system system = *d9_system_default();
    write_part(folder, ".", 6, 10);
    run_write(folder, "ant/3.png", "damaged", 7); /* must not be reported: it is not read */
    system.open = count_opening;
    context.system = &system, context.interrupt = &number;
    run_data_rejected(folder, (d9_dataset_options){.name = "folder"}, D9_SIGTERM, "interrupted");
    assert_int_equal(opened, 0);
}

TEST_WITH(const char *folder, a_foreign_folder_with_images_is_a_class, run_folder_set_up, run_folder_tear_down) {
    write_part(folder, ".", 6, 10);
    OK(d9_directory_make(&context, run_path(folder, "lost+found")));
    assert_int_equal(rename(run_path(folder, "ant"), run_path(folder, "lost+found")), 0);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder"});
    assert_string_equal(dataset->class_names[1], "lost+found");
    d9_dataset_free(&context, dataset);
}
