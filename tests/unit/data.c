/* Data sources and errors for damaged input; splits, the order of images, and preview sheets. Files are made in a
 * temporary folder; CIFAR-10 is not needed. */
#include "core/system.h"
#include "data/dataset.h"
#include "data/preview.h"
#include "kernels/formulas/philox.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE, BATCH_IMAGES = 10000, RECORD = 3073 };

/* Writes an image of one colour, which identifies it in the data set. */
static void write_picture(const char *folder, const char *name, int width, int height, uint8_t value) {
    uint8_t *pixels = test_memory((size_t)(3 * width * height));
    memset(pixels, value, (size_t)(3 * width * height));
    OK(d9_png_write(&context, run_path(folder, name), pixels, width, height));
}

/* The pixel values of make_records, which encode record, plane and position. */
static uint8_t pixel_at(int record, int plane, int pixel) { return (uint8_t)(record * 7 + plane * 80 + pixel * 3); }

/* Makes the records of a CIFAR file, followed by a zero byte: record i has label i % classes; if a record has two label
 * bytes, the first is i % 20 % classes. */
static uint8_t *make_records(int count, int label_bytes, int classes) {
    const int size = label_bytes + 3 * PIXELS;
    uint8_t *bytes = test_memory((size_t)count * (size_t)size + 1);
    for (int i = 0; i < count; i++) {
        uint8_t *record = bytes + (size_t)i * (size_t)size;
        record[0] = (uint8_t)(i % 20 % classes);
        record[label_bytes - 1] = (uint8_t)(i % classes);
        for (int plane = 0; plane < 3; plane++) {
            for (int pixel = 0; pixel < PIXELS; pixel++)
                record[label_bytes + plane * PIXELS + pixel] = pixel_at(i, plane, pixel);
        }
    }
    return bytes;
}

/* Makes the six files of CIFAR-10 as hard links to one file. */
static void link_cifar10(const char *folder, const uint8_t *bytes) {
    int count;
    const d9_dataset_file *file = d9_dataset_files("cifar10", &count);
    run_write(folder, file[0].name, bytes, (size_t)file[0].size);
    for (int i = 1; i < count; i++)
        assert_int_equal(link(run_path(folder, file[0].name), run_path(folder, file[i].name)), 0);
}

static void check_pixels(const d9_split *split, int64_t image, int record) {
    for (int pixel = 0; pixel < PIXELS; pixel++) {
        for (int plane = 0; plane < 3; plane++)
            assert_int_equal(split->images[(image * PIXELS + pixel) * 3 + plane], pixel_at(record, plane, pixel));
    }
}

TEST_WITH(const char *folder, cifar10_is_read_and_broken_files_are_rejected, run_folder_set_up) {
    const d9_dataset_options options = {.name = "cifar10"};
    uint8_t *bytes = make_records(BATCH_IMAGES, 1, 10);
    link_cifar10(folder, bytes);
    const d9_dataset_options checked = {.name = "cifar10", .path = folder, .check = true, .image_size = 224};
    const test_warnings *warnings = test_catch_warnings(&context);
    d9_dataset *dataset;
    OK(d9_dataset_load(&context, &checked, &dataset));
    assert_words(warnings->last, "data.image_size 224 cifar10 32");
    d9_dataset_free(&context, dataset); /* while checksums may still be computed */
    dataset = run_data(folder, checked);
    assert_ints(dataset->train.count, 50000, dataset->test.count, 10000, dataset->classes, 10);
    assert_string_equal(dataset->class_names[9], "truck");
    assert_true(dataset->mean[0] == 125.31 && dataset->std[2] == 66.70);
    check_pixels(&dataset->train, 0, 0);
    check_pixels(&dataset->train, 20017, 17);
    check_pixels(&dataset->test, 9999, 9999);
    for (int64_t i = 0; i < 50000; i++) assert_int_equal(dataset->train.labels[i], i % 10);
    assert_int_equal(d9_dataset_verify(&context, dataset), D9_DATA);
    assert_words(context.message, "data_batch_1.bin");
    assert_words(context.message, "aadd24acce27... dawn9 cifar10");
    d9_context_clear(&context);
    OK(d9_dataset_verify(&context, dataset));
    bytes[(size_t)17 * RECORD] = 11;
    run_write(folder, "data_batch_3.bin", bytes, (size_t)BATCH_IMAGES * RECORD);
    run_data_rejected(folder, options, D9_DATA, "data_batch_3.bin 17 11 0 9");
    run_write(folder, "data_batch_1.bin", bytes, (size_t)4 * RECORD + 1000);
    run_data_rejected(folder, options, D9_DATA, "data_batch_1.bin 4 30730000");
    run_write(folder, "data_batch_1.bin", bytes, (size_t)BATCH_IMAGES * RECORD + 1);
    run_data_rejected(folder, options, D9_DATA, "data_batch_1.bin 30730001 10000");
}

TEST_WITH(const char *folder, cifar100_takes_the_fine_label, run_folder_set_up) {
    const d9_dataset_options options = {.name = "cifar100"};
    uint8_t *bytes = make_records(50000, 2, 100);
    run_write(folder, "train.bin", bytes, (size_t)50000 * 3074);
    run_write(folder, "test.bin", bytes, (size_t)10000 * 3074);
    d9_dataset *dataset = run_data(folder, options);
    assert_ints(dataset->classes, 100, dataset->train.labels[47], 47);
    check_pixels(&dataset->train, 40123, 40123);
    OK(d9_dataset_verify(&context, dataset)); /* no checksums were requested */
    FILE *train = fopen(run_path(folder, "train.bin"), "r+");
    assert_true(train && fseek(train, 3 * 3074, SEEK_SET) == 0 && fputc(20, train) == 20 && fclose(train) == 0);
    run_data_rejected(folder, options, D9_DATA, "train.bin 3 20 0 19");
}

TEST_WITH(const char *folder, folders_of_the_user_are_no_files_of_cifar100, run_folder_set_up) {
    run_make_directory(folder, "train");
    run_make_directory(folder, "test");
    run_data_rejected(folder, (d9_dataset_options){.name = "cifar100"}, D9_DATA, "no train.bin");
}

TEST_WITH(const char *folder, missing_data_are_rejected_and_folders_searched_in_order, run_folder_set_up) {
    char found[RUN_PATH_BYTES];
    run_data_rejected(folder, (d9_dataset_options){.name = "cifar10"}, D9_DATA, "dawn9");
    run_data_rejected(folder, (d9_dataset_options){.name = "cifar1"}, D9_USAGE, "cifar1 cifar10");

    /* search order: $DAWN9_DATA, its subfolder, the cache folder */
    setenv("XDG_CACHE_HOME", run_path(folder, "cache"), 1), setenv("DAWN9_DATA", folder, 1);
    run_make_directory(folder, "cache/dawn9/cifar10");
    d9_dataset_folder("cifar10", NULL, found, sizeof found);
    assert_string_equal(found, folder);
    run_write(folder, "cache/dawn9/cifar10/test_batch.bin", "x", 1);
    d9_dataset_folder("cifar10", NULL, found, sizeof found);
    assert_non_null(strstr(found, "cache/dawn9/cifar10"));
    run_make_directory(folder, "cifar10");
    run_write(folder, "cifar10/data_batch_1.bin", "x", 1);
    d9_dataset_folder("cifar10", NULL, found, sizeof found);
    assert_null(strstr(found, "cache"));
    d9_dataset_folder("cifar10", "elsewhere", found, sizeof found);
    assert_string_equal(found, "elsewhere");
    unsetenv("XDG_CACHE_HOME"), unsetenv("DAWN9_DATA");
}

/* Makes three classes of `images` images each. Paths below the folder begin with `root`, "" or "train/". */
static void make_class_folders(const char *folder, const char *root, int images) {
    static const char *const classes[] = {"ant", "bee", "cow"};
    for (int class = 0; class < 3; class ++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", root, classes[class]);
        run_make_directory(folder, name);
        for (int i = 0; i < images; i++) {
            snprintf(name, sizeof name, "%s%s/%02d.PNG", root, classes[class], i);
            write_picture(folder, name, 10 + 7 * i, 40 - i, (uint8_t)(80 * class + i));
        }
    }
}

TEST_WITH(const char *folder, folder_is_split_by_class_and_seed, run_folder_set_up) {
    make_class_folders(folder, "", 12);
    run_write(folder, "bee/notes.txt", "x", 1);
    d9_dataset *a = run_data(folder, (d9_dataset_options){.name = "folder", .seed = 1});
    d9_dataset *b = run_data(folder, (d9_dataset_options){.name = "folder", .seed = 1});
    d9_dataset *c = run_data(folder, (d9_dataset_options){.name = "folder", .seed = 2, .image_size = 8});
    const int64_t count = a->train.count;
    assert_int_equal(count + a->test.count, 36);
    assert_string_equal(a->class_names[1], "bee");
    assert_int_equal(c->width, 8);
    bool seen[256] = {false};
    int tests_of_class[3] = {0}, seeds_differ = 0;
    for (int part = 0; part < 2; part++) {
        const d9_split *split = part ? &a->test : &a->train;
        for (int64_t i = 0; i < split->count; i++) {
            const uint8_t value = split->images[i * PIXELS * 3];
            assert_int_equal(value / 80, split->labels[i]);
            assert_false(seen[value]); /* no image in both parts */
            seen[value] = true;
            if (part) tests_of_class[split->labels[i]]++;
        }
    }
    for (int class = 0; class < 3; class ++) assert_in_range(tests_of_class[class], 1, 6);
    assert_memory_equal(a->train.images, b->train.images, (size_t)count * PIXELS * 3);
    for (int i = 0; i < 3; i++) seeds_differ |= a->test.images[i * PIXELS * 3] != c->test.images[i * 64 * 3];
    assert_true(seeds_differ && a->std[0] > 50 && a->mean[0] > 60 && a->mean[0] < 110);
    double sum = 0, squares = 0;
    for (int i = 0; i < count * PIXELS; i++) sum += a->train.images[3 * i];
    for (int i = 0; i < count * PIXELS; i++) squares += pow(a->train.images[3 * i] - sum / (double)(count * PIXELS), 2);
    assert_true(fabs(a->mean[0] - sum / (double)(count * PIXELS)) < 1e-9);
    assert_true(fabs(a->std[0] - sqrt(squares / (double)(count * PIXELS))) < 1e-9);
}

/* 0: the file is in neither part; 1: training; 2: test. */
static int part_of(const d9_dataset *dataset, const char *name) {
    for (int part = 0; part < 2; part++) {
        const d9_split *split = part ? &dataset->test : &dataset->train;
        for (int64_t i = 0; i < split->count; i++)
            if (!strcmp(split->names[i], name)) return part + 1;
    }
    return 0;
}

/* Loads the folder again. Returns how many files of `before` it still has; these must be in the same part. */
static int count_kept_in_part(const char *folder, d9_dataset_options options, const d9_dataset *before) {
    int shared = 0;
    d9_dataset *after = run_data(folder, options);
    for (int part = 0; part < 2; part++) {
        const d9_split *split = part ? &before->test : &before->train;
        for (int64_t i = 0; i < split->count; i++) {
            const int now = part_of(after, split->names[i]);
            if (now) assert_int_equal(now, part + 1);
            shared += now > 0;
        }
    }
    return shared;
}

/* Adding and removing files moves no other file between the parts, nor into or out of the validation images: a file is
 * a validation image if its draw is below a limit, which evaluations take from the model (d9_provenance). */
TEST_WITH(const char *folder, a_file_that_comes_or_goes_moves_no_other, run_folder_set_up) {
    char name[64];
    make_class_folders(folder, "", 30);
    for (int validation = 0; validation < 50; validation += 25) {
        d9_dataset_options options = {.name = "folder", .validation = validation};
        d9_dataset *before = run_data(folder, options);
        if (validation) assert_int_equal(before->test.count, validation);
        const d9_provenance known = before->provenance;
        if (validation) options.known = &known;
        for (int i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "%s/!%d.png", i % 2 ? "ant" : "cow", i + validation);
            write_picture(folder, name, 9, 9, (uint8_t)(241 + i / 2));
            snprintf(name, sizeof name, "bee/%02d.PNG", i + validation / 10);
            if (i % 4 == 0) remove(run_path(folder, name));
        }
        snprintf(name, sizeof name, "cow/%02d.PNG", validation / 10);
        const char *old = run_path(folder, name);
        snprintf(name, sizeof name, "cow/zebra%d.png", validation);
        assert_int_equal(rename(old, run_path(folder, name)), 0);
        assert_in_range(count_kept_in_part(folder, options, before), before->train.count - 6, 90);
    }
}

/* A folder with images that the model was trained on is split by the version of the rule that the training used. So is
 * any folder if the training images are unknown, as for a model of rule 1. Other folders without a test part of their
 * own are evaluated whole. */
TEST_WITH(const char *folder, a_folder_that_was_not_trained_on_is_whole, run_folder_set_up) {
    make_class_folders(folder, "", 12);
    d9_dataset_options options = {.name = "folder", .validation = 4};
    d9_dataset *trained = run_data(folder, options), *own, *other;
    const d9_provenance known = trained->provenance, first = {.rule = 1}, cifar = {.rule = 2};
    char name[64];
    options.known = &known;
    own = run_data(folder, options);
    assert_int_equal(own->test.count, 4);
    assert_false(own->unseen);
    options.validation = 0, options.known = &first;
    own = run_data(folder, options);
    assert_ints(own->train.count, 30, own->test.count, 6);
    assert_false(own->unseen);
    for (int class = 0; class < 3; class ++) {
        snprintf(name, sizeof name, "other/%d", class);
        run_make_directory(folder, name);
        for (int i = 0; i < 1 + 4 * class; i++) {
            snprintf(name, sizeof name, "other/%d/%d.png", class, i);
            write_picture(folder, name, 9, 9, (uint8_t)(240 + class + i));
        }
    }
    const char *whole = run_path(folder, "other");
    for (int i = 0; i < 2; i++) {
        options = (d9_dataset_options){.name = "folder", .path = whole, .validation = 4, .known = i ? &cifar : &known};
        other = run_data(folder, options);
        assert_int_equal(other->test.count, 1 + 5 + 9);
        assert_true(other->unseen);
    }
    options.known = &cifar, options.path = NULL;
    run_folder_remove(whole);
    own = run_data(folder, options);
    assert_int_equal(own->test.count, 36);
}

TEST_WITH(const char *folder, classes_of_two_images_are_split, run_folder_set_up) {
    make_class_folders(folder, "", 2);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder"});
    assert_ints(dataset->train.count, 3, dataset->test.count, 3);
    for (int part = 0; part < 2; part++) {
        const d9_split *split = part ? &dataset->test : &dataset->train;
        assert_int_equal(split->labels[0] + split->labels[1] + split->labels[2], 0 + 1 + 2);
    }
}

TEST_WITH(const char *folder, folder_split_by_hand_is_kept, run_folder_set_up) {
    make_class_folders(folder, "train/", 4);
    run_data_rejected(folder, (d9_dataset_options){.name = "folder"}, D9_DATA, "train: test/");
    make_class_folders(folder, "test/", 1);
    d9_dataset *dataset = run_data(folder, (d9_dataset_options){.name = "folder"});
    assert_ints(dataset->train.count, 12, dataset->test.count, 3);
    run_make_directory(folder, "test/dog");
    write_picture(folder, "test/dog/1.png", 4, 4, 1);
    run_data_rejected(folder, (d9_dataset_options){.name = "folder"}, D9_DATA, "test/dog train/");
}

TEST(class_weights_are_inverse_to_class_sizes) {
    int32_t labels[] = {0, 2, 0, 0, 2, 0};
    const d9_dataset dataset = {.classes = 4, .train = {.count = 6, .labels = labels}};
    double weights[4];
    d9_dataset_class_weights(&dataset, weights);
    assert_true(weights[0] == 6.0 / 8 && weights[1] == 0 && weights[2] == 6.0 / 4 && weights[3] == 0);
}

TEST_WITH(const char *folder, broken_folders_are_rejected, run_folder_set_up) {
    const d9_dataset_options options = {.name = "folder"};
    run_data_rejected(folder, (d9_dataset_options){.name = "folder", .path = "no/such/folder"}, D9_DATA,
                      "no/such/folder");
    run_make_directory(folder, "ant");
    run_data_rejected(folder, options, D9_DATA, "/ant");
    write_picture(folder, "ant/1.png", 3, 5, 9);
    run_data_rejected(folder, options, D9_DATA, "1 2");
    run_make_directory(folder, "bee");
    write_picture(folder, "bee/1.png", 3, 5, 9);
    run_data_rejected(folder, options, D9_DATA, "/ant 1 2");
    write_picture(folder, "ant/2.png", 3, 5, 9);
    run_write(folder, "bee/2.jpg", "not an image", 12);
    run_data_rejected(folder, options, D9_DATA, "bee/2.jpg PNG JPEG WebP");

    /* The first half of a PNG. */
    size_t size;
    write_picture(folder, "bee/2.jpg", 200, 100, 9);
    const uint8_t *bytes = run_read_file(run_path(folder, "bee/2.jpg"), &size);
    run_write(folder, "bee/2.jpg", bytes, size / 2);
    run_data_rejected(folder, options, D9_DATA, "bee/2.jpg");
    write_picture(folder, "bee/2.jpg", 200, 100, 9);
    run_make_directory(folder, "bee/wings");
    run_data_rejected(folder, options, D9_DATA, "bee/wings");
}

/* The error counts the damaged images; with skip_damaged, the rest loads as if they did not exist. */
TEST_WITH(const char *folder, damaged_pictures_are_left_out, run_folder_set_up) {
    d9_dataset_options options = {.name = "folder", .skip_damaged = true};
    make_class_folders(folder, "train/", 3);
    make_class_folders(folder, "test/", 2);
    d9_dataset *whole = run_data(folder, options);
    run_write(folder, "train/ant/00.PNG", "not an image", 12);
    run_write(folder, "train/bee/01.PNG", "", 0);
    run_write(folder, "test/cow/00.PNG", "no", 2);
    d9_dataset *rest = run_data(folder, options);
    assert_ints(rest->train.count, whole->train.count - 2, rest->test.count, whole->test.count - 1);
    for (int64_t i = 0, j = 0; i < whole->train.count; i++) { /* an image has the colour 80 * class + picture */
        const uint8_t colour = whole->train.images[i * PIXELS * 3];
        if (colour == 0 || colour == 81) continue; /* ant/00 and bee/01 */
        assert_ints(rest->train.labels[j], colour / 80, rest->train.images[j++ * PIXELS * 3 + PIXELS], colour);
    }
    options.skip_damaged = false;
    run_data_rejected(folder, options, D9_DATA, "3 --skip-damaged");
}

/* Writes a file as numpy.save does: the header is filled with spaces to 128 bytes and ends with a newline. */
static void write_npy(const char *folder, const char *name, const char *head, const void *numbers, size_t size) {
    uint8_t bytes[8192] = "\x93NUMPY\x01\x00\x76\x00";
    memset(bytes + 10, ' ', 118);
    memcpy(bytes + 10, head, strlen(head));
    bytes[127] = '\n';
    assert_true(size + 128 <= sizeof bytes);
    memcpy(bytes + 128, numbers, size);
    run_write(folder, name, bytes, size + 128);
}

enum { ARRAY_SIDE = 5, ARRAY_IMAGES = 12 };
#define NPY(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': (" shape "), }"

/* Writes twelve images in which neighbouring bytes differ, and labels 0, 1, 2, 0, ... as int64. `images` gets the bytes
 * of the images. */
static void write_arrays(const char *folder, const char *prefix, uint8_t *images) {
    char name[64];
    int64_t labels[ARRAY_IMAGES];
    for (int i = 0; i < ARRAY_IMAGES * 75; i++) images[i] = (uint8_t)(i * 7);
    for (int i = 0; i < ARRAY_IMAGES; i++) labels[i] = i % 3;
    snprintf(name, sizeof name, "%simages.npy", prefix);
    write_npy(folder, name, NPY("|u1", "12, 5, 5, 3"), images, ARRAY_IMAGES * 75);
    snprintf(name, sizeof name, "%slabels.npy", prefix);
    write_npy(folder, name, NPY("<i8", "12,"), labels, sizeof labels);
}

static const d9_dataset_options array_options = {.name = "arrays", .image_size = ARRAY_SIDE};

TEST_WITH(const char *folder, arrays_are_read, run_folder_set_up) {
    uint8_t images[ARRAY_IMAGES * 75], grey[] = {1, 2, 0};
    write_arrays(folder, "", images);
    d9_dataset *part = run_data(folder, array_options); /* no test set: a sixth is split off */
    assert_ints(part->train.count, 10, part->test.count, 2);
    d9_dataset_options tuned = array_options; /* validation images are not test images */
    tuned.validation = 3;
    d9_dataset *set_aside = run_data(folder, tuned);
    part = run_data(folder, array_options);
    assert_true(set_aside->train.count == 7 && set_aside->test.count == 3);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            assert_memory_not_equal(set_aside->test.images + i * 75, part->test.images + j * 75, 75);
    write_arrays(folder, "test_", images);
    d9_dataset *whole = run_data(folder, array_options);
    assert_true(whole->train.count == 12 && whole->test.count == 12 && whole->classes == 3);
    assert_true(whole->height == 5 && whole->width == 5 && whole->channels == 3);
    assert_memory_equal(whole->train.images, images, sizeof images);
    for (int i = 0; i < ARRAY_IMAGES; i++) assert_int_equal(whole->train.labels[i], i % 3);
    assert_string_equal(whole->class_names[2], "2");
    write_npy(folder, "images.npy", NPY("|u1", "3, 5, 5"), images, 75); /* grey images, labels of one byte */
    write_npy(folder, "labels.npy", NPY("|u1", "3,"), grey, sizeof grey);
    d9_dataset *drawn = run_data(folder, array_options);
    assert_int_equal(drawn->train.count, 3);
    for (int i = 0; i < 3 * 75; i++) assert_int_equal(drawn->train.images[i], images[i / 3]);
    assert_true(drawn->train.labels[0] == 1 && drawn->train.labels[2] == 0);

    /* Images to evaluate may lack classes of the model, here 0. */
    const d9_provenance known = {.rule = D9_SPLIT_RULE, .classes = 4};
    write_npy(folder, "labels.npy", NPY("|u1", "3,"), (const uint8_t[]){1, 2, 1}, 3);
    run_data_rejected(folder, array_options, D9_DATA, "class 0");
    tuned = array_options;
    tuned.known = &known;
    drawn = run_data(folder, tuned);
    assert_ints(drawn->train.count, 3, drawn->classes, 4);
}

TEST_WITH(const char *folder, broken_arrays_are_rejected, run_folder_set_up) {
    uint8_t images[ARRAY_IMAGES * 75];
    const int16_t negative[ARRAY_IMAGES] = {0, 1, 2, -1};
    const int64_t lowest[ARRAY_IMAGES] = {INT64_MIN};
    const uint8_t zeros[ARRAY_IMAGES] = {0}, gap[ARRAY_IMAGES] = {[3] = 2};
    run_data_rejected(folder, array_options, D9_DATA, "images.npy");
    write_arrays(folder, "", images);
    run_data_rejected(folder, (d9_dataset_options){.name = "arrays"}, D9_DATA, "5 32 data.image_size");
    const struct {
        const char *head;
        const void *labels;
        size_t size;
        const char *words;
    } bad[] = {{NPY("<i2", "12,"), negative, sizeof negative, "labels.npy 3 -1 0 65535"},
               {NPY("<i8", "12,"), lowest, sizeof lowest, "labels.npy 0 -9223372036854775808"},
               {NPY("<u8", "12,"), lowest, sizeof lowest, "labels.npy 0 9223372036854775808"},
               {NPY("<i8", "12,"), lowest, sizeof lowest - 8, "labels.npy 88 96"},
               {NPY(">i2", "12,"), negative, sizeof negative, "labels.npy <i8"},
               {NPY("<U1", "12,"), lowest, 48, "labels.npy"},
               {NPY("|O", "12,"), lowest, 48, "labels.npy"},
               {NPY("<i2", "11,"), negative, sizeof negative - 2, "labels.npy 11 12"},
               {NPY("<f4", "6,"), negative, sizeof negative, "labels.npy"},
               {NPY("|u1", "12,"), zeros, sizeof zeros, "labels.npy"},
               {NPY("|u1", "12,"), gap, sizeof gap, "1 2"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_npy(folder, "labels.npy", bad[i].head, bad[i].labels, bad[i].size);
        run_data_rejected(folder, array_options, D9_DATA, bad[i].words);
    }
    static const struct {
        const char *head, *words;
    } wrong[] = {
        {NPY("<f4", "3, 5, 5, 3"), ""},
        {NPY("|u1", "900,"), "shape"},
        {NPY("|u1", "9, 5, 5, 4"), "shape"},
        {NPY("|u1", "0, 5, 5, 3"), ""},
        {NPY("|u1", "13, 5, 5, 3"), "900 975"},
        {NPY("|u1", "11, 5, 5, 3"), "900 825"},
        {NPY("|u1", "4611686018427387904, 5, 5, 3"), ""},
        {NPY("|u1", "1, 1, 1, 1, 900"), ""},
        {NPY("|u1", "-12, 5, 5, 3"), ""},
        {NPY(">u2", "6, 5, 5, 3"), ""},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (12, 5, 5, 3), }", "Fortran"},
        {"{}", ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_npy(folder, "images.npy", wrong[i].head, images, sizeof images);
        run_data_rejected(folder, array_options, D9_DATA, "images.npy");
        assert_words(context.message, wrong[i].words);
    }
    run_write(folder, "images.npy", "\x93NUMPY\x01\x00\xff\xff  ", 12);
    run_data_rejected(folder, array_options, D9_DATA, "images.npy");
    run_write(folder, "images.npy", "PK not numpy", 12);
    run_data_rejected(folder, array_options, D9_DATA, "images.npy");
    run_write(folder, "images.npy", "", 0);
    run_data_rejected(folder, array_options, D9_DATA, "images.npy");
}

/* Writes images.npy of format `version` with a header of `length` bytes. */
static void write_headed(const char *folder, int version, size_t length, const uint8_t *images) {
    static uint8_t bytes[8192];
    const size_t start = version > 1 ? 12 : 10;
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    memcpy(bytes + 6, (const uint8_t[]){(uint8_t)version, 0, (uint8_t)length, (uint8_t)(length >> 8), 0, 0}, 6);
    memcpy(bytes + start, NPY("|u1", "12, 5, 5, 3"), strlen(NPY("|u1", "12, 5, 5, 3")));
    memcpy(bytes + start + length, images, ARRAY_IMAGES * 75);
    run_write(folder, "images.npy", bytes, start + length + ARRAY_IMAGES * 75);
}

TEST_WITH(const char *folder, array_headers_and_labels_have_limits, run_folder_set_up) {
    uint8_t images[ARRAY_IMAGES * 75];
    int32_t labels[ARRAY_IMAGES] = {0, 1, 65535};
    write_arrays(folder, "", images);
    for (int version = 1; version <= 2; version++) {
        write_headed(folder, version, 4095, images);
        d9_dataset *dataset = run_data(folder, array_options);
        assert_int_equal(dataset->train.count + dataset->test.count, ARRAY_IMAGES);
        assert_int_equal(dataset->train.images[0], images[0]);
        write_headed(folder, version, 4096, images);
        run_data_rejected(folder, array_options, D9_DATA, "images.npy header");
    }
    write_arrays(folder, "", images);
    write_npy(folder, "labels.npy", NPY("<i4", "12,"), labels, sizeof labels);
    run_data_rejected(folder, array_options, D9_DATA, "labels.npy gap 65535");
    labels[2] = 65536;
    write_npy(folder, "labels.npy", NPY("<i4", "12,"), labels, sizeof labels);
    run_data_rejected(folder, array_options, D9_DATA, "labels.npy 2 65536 0 65535");
}

/* In the three channels none, 1 and 4 of the 300 training pixels differ: variances of 0, 0.003 and 0.013. */
TEST_WITH(const char *folder, a_nearly_constant_channel_is_not_amplified, run_folder_set_up) {
    uint8_t images[ARRAY_IMAGES * 75];
    write_arrays(folder, "test_", images), write_arrays(folder, "", images);
    memset(images, 7, sizeof images);
    images[1] = images[2] = images[5] = images[8] = images[11] = 8;
    write_npy(folder, "images.npy", NPY("|u1", "12, 5, 5, 3"), images, sizeof images);
    d9_dataset *dataset = run_data(folder, array_options);
    assert_true(dataset->std[0] == 1 && dataset->std[1] == 1);
    assert_true(fabs(dataset->std[2] - sqrt(4.0 / 300 - 16.0 / 90000)) < 1e-9);
}

static void count_uneven(void *user, d9_log_level level, const char *line) {
    *(int *)user += level == D9_LOG_WARNING && strstr(line, "uneven") != NULL;
}

TEST(three_times_as_many_images_of_a_class_are_warned_of) {
    int32_t labels[] = {0, 0, 1, 0};
    int warned = 0;
    const char *const names[] = {"cat", "dog"};
    d9_dataset dataset = {
        .name = "arrays", .classes = 2, .class_names = names, .train = {.count = 3, .labels = labels}};
    context.log = count_uneven, context.log_user = &warned;
    OK(d9_dataset_warn(&context, &dataset));
    assert_int_equal(warned, 0);
    dataset.train.count = 4;
    OK(d9_dataset_warn(&context, &dataset));
    assert_int_equal(warned, 1);
}

/* Class 2 has one image. For some seeds it is drawn as a test image, which is an error; otherwise it is trained on. */
TEST_WITH(const char *folder, a_class_without_an_image_to_train_on_is_rejected, run_folder_set_up) {
    uint8_t images[ARRAY_IMAGES * 75], labels[ARRAY_IMAGES] = {0, 1, 0, 1, 2, 1, 0, 1, 0, 1, 0, 1};
    int trained = 0, rejected = 0;
    write_arrays(folder, "", images);
    write_npy(folder, "labels.npy", NPY("|u1", "12,"), labels, sizeof labels);
    d9_dataset_options options = array_options;
    options.path = folder;
    for (options.seed = 0; options.seed < 20; options.seed++) {
        d9_dataset *dataset;
        d9_context_clear(&context);
        if (d9_dataset_load(&context, &options, &dataset) != D9_OK) {
            run_data_rejected(folder, options, D9_DATA, "2");
            rejected++;
            continue;
        }
        for (int i = 0; i < dataset->train.count; i++) trained += dataset->train.labels[i] == 2;
        d9_dataset_free(&context, dataset);
    }
    assert_true(trained > 0 && rejected > 0);
    assert_int_equal(trained + rejected, 20);
}

TEST_WITH(const char *folder, synthetic_is_a_function_of_its_seed, run_folder_set_up) {
    d9_dataset *a = run_data(folder, (d9_dataset_options){.name = "synthetic", .seed = 3});
    d9_dataset *b = run_data(folder, (d9_dataset_options){.name = "synthetic", .seed = 3, .synthetic_train = 100});
    d9_dataset *c = run_data(folder, (d9_dataset_options){.name = "synthetic", .seed = 4, .synthetic_train = 100});
    assert_ints(a->train.count, 2048, a->test.count, 512);
    assert_memory_equal(a->train.images, b->train.images, 100 * PIXELS * 3);
    assert_memory_not_equal(a->train.images, c->train.images, PIXELS * 3);
    assert_memory_not_equal(a->train.images, a->test.images, PIXELS * 3);
    for (int channel = 0; channel < 3; channel++)
        assert_true(a->mean[channel] > 110 && a->mean[channel] < 146 && a->std[channel] > 40 && a->std[channel] < 80);
    run_data_rejected(folder, (d9_dataset_options){.name = "synthetic", .synthetic_train = -1}, D9_USAGE, "-1 1");
}

TEST(normalize_unit_divides_pixels_by_255) {
    const d9_config *config = program_yaml("data: {dataset: synthetic, normalize: unit}\n");
    d9_dataset *dataset;
    double table[3 * 256];
    OK(d9_config_dataset(&context, config, NULL, NULL, &dataset));
    d9_normalization_table(dataset->mean, dataset->std, 3, table);
    for (int i = 0; i < 3 * 256; i++) assert_true(table[i] == i % 256 / 255.0);
    d9_dataset_free(&context, dataset);
}

static bool holds_image(const d9_split *split, const uint8_t *image) {
    for (int64_t i = 0; i < split->count; i++) {
        if (!memcmp(split->images + i * PIXELS * 3, image, PIXELS * 3)) return true;
    }
    return false;
}

TEST_WITH(const char *folder, validation_replaces_the_test_set, run_folder_set_up) {
    const d9_dataset_options all = {.name = "synthetic", .seed = 3, .synthetic_train = 200, .synthetic_test = 50};
    d9_dataset_options cut = all;
    cut.validation = 60;
    d9_dataset *whole = run_data(folder, all), *split = run_data(folder, cut), *again = run_data(folder, cut);
    assert_ints(split->train.count, 140, split->test.count, 60);
    for (int64_t i = 0, kept = 0, held_out = 0; i < 200; i++) { /* in order, with their labels, each exactly once */
        const uint8_t *image = whole->train.images + i * PIXELS * 3;
        const bool in_test = holds_image(&split->test, image);
        const d9_split *part = in_test ? &split->test : &split->train;
        const int64_t place = in_test ? held_out++ : kept++;
        assert_memory_equal(part->images + place * PIXELS * 3, image, PIXELS * 3);
        assert_int_equal(part->labels[place], whole->train.labels[i]);
        assert_false(in_test && holds_image(&split->train, image));
    }
    assert_memory_equal(split->test.images, again->test.images, 60 * PIXELS * 3);
    /* validation images are drawn at random: they are not the last ones */
    assert_memory_not_equal(split->test.images, whole->train.images + 140 * PIXELS * 3, 60 * PIXELS * 3);
    cut.validation = 200;
    run_data_rejected(folder, cut, D9_USAGE, "data.validation 200 0 199");
}

/* Sort key of a sample for seed 1 in epoch 0. */
static uint64_t order_key(int32_t sample) {
    return d9_philox_pair(d9_philox4x32_10(1, (uint32_t)sample, 0, D9_STREAM_ORDER, 0));
}

TEST(order_is_a_permutation_of_its_own_each_epoch) {
    enum { COUNT = 50000 };
    static int32_t first[COUNT], second[COUNT], other[COUNT];
    static bool seen[COUNT];
    OK(d9_epoch_order(&context, 1, 0, COUNT, first));
    for (int i = 0; i < COUNT; i++) {
        assert_in_range(first[i], 0, COUNT - 1);
        assert_false(seen[first[i]]);
        seen[first[i]] = true;
    }
    for (int i = 0; i + 1 < COUNT; i++) assert_true(order_key(first[i]) <= order_key(first[i + 1]));
    OK(d9_epoch_order(&context, 1, 0, COUNT, second));
    assert_memory_equal(first, second, sizeof first);
    for (int epoch = 1; epoch < 3; epoch++) {
        int fixed = 0;
        OK(d9_epoch_order(&context, 1, epoch, COUNT, other));
        for (int i = 0; i < COUNT; i++) fixed += first[i] == other[i];
        assert_true(fixed < 10); /* by chance about one image keeps its place */
    }
    OK(d9_epoch_order(&context, 2, 0, COUNT, other));
    assert_memory_not_equal(first, other, sizeof first);
    assert_ints(d9_epoch_order(&context, 1, 0, 0, other), D9_OK, d9_epoch_order(&context, 1, 0, 1, other), D9_OK);
    assert_int_equal(other[0], 0);
}

TEST_WITH(const char *folder, sheet_shows_bytes_reals_and_filters, run_folder_set_up) {
    const double mean[3] = {125.31, 122.95, 113.87}, std[3] = {62.99, 62.09, 66.70};
    uint8_t bytes[2 * 2 * 3];
    float reals[12];
    const double filter[12] = {-2, 0, 2};
    d9_sheet sheet;
    for (int i = 0; i < 12; i++) {
        bytes[i] = (uint8_t)(20 * i);
        reals[i] = (float)((bytes[i] - mean[i % 3]) / std[i % 3]);
    }
    const d9_sheet_options options = {.tile_height = 2, .tile_width = 2, .scale = 3, .gap = 1};
    assert_ints(d9_sheet_make(&context, 1, 3, &options, &sheet), D9_OK, sheet.height, 8, sheet.width, 22);
    d9_sheet_put_bytes(&sheet, 0, 0, bytes);
    d9_sheet_put_reals(&sheet, 0, 1, reals, mean, std);
    d9_sheet_put_filter(&sheet, 0, 2, filter);
    for (int y = 1; y < 7; y++) {
        const uint8_t *row = sheet.pixels + (size_t)y * 22 * 3;
        for (int x = 0; x < 6; x++) {
            const int pixel = (y - 1) / 3 * 2 + x / 3;
            assert_memory_equal(row + (1 + x) * 3, bytes + 3 * pixel, 3);
            assert_memory_equal(row + (8 + x) * 3, bytes + 3 * pixel, 3);
        }
    }
    const uint8_t *corner = sheet.pixels + (22 + 15) * 3;
    assert_ints(corner[0], 0, corner[1], 128, corner[2], 255);
    reals[0] = NAN;
    d9_sheet_put_reals(&sheet, 0, 1, reals, mean, std);
    assert_int_equal(sheet.pixels[(22 + 8) * 3 + 1], 0);
    OK(d9_sheet_write(&context, &sheet, run_path(folder, "sheet.png")));
    assert_int_equal(d9_sheet_write(&context, &sheet, run_path(folder, "no/such/folder/sheet.png")), D9_OUTPUT);
    d9_sheet_free(&context, &sheet);
}
