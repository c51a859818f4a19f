/* Draws test and validation images, or texts, and detects those that a model was trained on.
 *
 * Version 2 of the rule draws by name: an image of a folder is in the test part if draw(seed, class, file name) is
 * below a limit, a sixth of 2^64. If no draw of a class is below the limit, the image with its lowest draw is in the
 * test part. If all draws of a class of several images are below the limit, the image with its highest draw is for
 * training. The draw is Philox at counter = FNV-1a of "CLASS/NAME", so adding, removing or renaming a file changes the
 * draw of no other file. Version 1 drew by the position in the sorted list of names; models of that time do not record
 * a version. Arrays have no names: every version draws by their position.
 *
 * Version 3 differs for images of a table (labels.h), whose file names may repeat: PATIENT/front.png. It draws the test
 * part by the path that the table has, and validation images by the path below the data folder. Version 2 drew both by
 * the file name. */
#pragma once

#include "data/source.h"

enum { D9_TEST_SHARE = 6 }; /* one in six images is in the test part, if the test part is drawn */
enum { D9_SPLIT_BY_POSITION = 1, D9_SPLIT_BY_NAME = 2, D9_SPLIT_BY_PATH = 3 };

/* Purposes of draws from D9_STREAM_SPLIT; D9_DRAW_NAME_... draw by name or path, the others by position. */
enum {
    D9_DRAW_VALIDATION = 0,
    D9_DRAW_CLASS_TEST = 1, /* test images of each class of a folder, if the rule is D9_SPLIT_BY_POSITION */
    D9_DRAW_SHUFFLE = 2,    /* order of the training files of a folder or a table */
    D9_DRAW_TEST = 3,       /* test images of arrays */
    D9_DRAW_NAME_TEST = 4,
    D9_DRAW_NAME_VALIDATION = 5
};

/* Version of the rule to use: that of options->known; without it, the current one. */
int d9_split_rule(const d9_dataset_options *options);

/* The draw of a file by its class and `name`, uniform in 64 bits. `draw`: its purpose, a D9_DRAW_NAME_... */
uint64_t d9_name_draw(uint64_t seed, uint32_t draw, const char *class_name, const char *name);
/* True if the draw puts a file into the test part; a sixth of all draws do. */
bool d9_is_test_draw(uint64_t draw);

/* Fills the digests of dataset->provenance. With options->known, sets dataset->unseen if no image is among the recorded
 * training images; if also the test part was drawn or is empty, makes all images the test part. Warns of an image that
 * is in both parts or in two classes, and if the test images are not those of the model's training. Returns D9_DATA if
 * dataset->lost_column is set and the model was, or may have been, trained on some of the images. Call it before
 * validation images are set aside. */
D9_MUST_USE d9_status d9_split_identify(d9_context *context, const d9_dataset_options *options, d9_dataset *dataset);

/* Moves options->validation images, drawn from train, to a new test set that replaces the old one. An evaluation with
 * the data.validation of the training moves those whose draws are at most known->validation_limit. */
D9_MUST_USE d9_status d9_split_off_validation(d9_context *context, const d9_dataset_options *options,
                                              d9_dataset *dataset);
/* Moves `count` images, drawn by position, from train to a new test set. */
D9_MUST_USE d9_status d9_split_off_test(d9_context *context, const d9_dataset_options *options, int64_t count,
                                        d9_dataset *dataset);
