/* Files of CIFAR-10 and CIFAR-100: in the official binary layout, or in the version for Python, which is converted. */
#pragma once

#include "data/source.h"

enum { D9_CIFAR_PATH = D9_PUBLISHED_PATH };

extern const d9_published d9_cifar10_published, d9_cifar100_published;

/* Finds the file in `folder`: the binary ("data_batch_1.bin") or, without it, the Python version ("data_batch_1").
 * *found: one of them exists. `path` receives its path, or that of the missing binary. Returns D9_DATA, with the
 * reason, if it cannot be known whether a file exists, or if `folder` is a file. */
D9_MUST_USE d9_status d9_cifar_find(d9_context *context, const char *folder, const d9_dataset_file *file,
                                    char path[D9_CIFAR_PATH], bool *found);

/* Reads the file `path` that d9_cifar_find found for dataset `name`; converts a Python version to the binary layout.
 * Free *bytes with d9_release. */
D9_MUST_USE d9_status d9_cifar_read(d9_context *context, const char *name, const d9_dataset_file *file,
                                    const char *path, uint8_t **bytes, size_t *size);

/* Converts a file of the Python version, `pickle`, to the binary layout of `records` records; free *binary with
 * d9_release. `labels`: keys of the lists of labels, in the order of the binary layout; labels[1] NULL: one list.
 * Returns D9_DATA, with the offset, unless the pickle has the form in which Python 2 wrote such a dictionary. Nothing
 * in the pickle is executed. */
D9_MUST_USE d9_status d9_cifar_convert(d9_context *context, const char *path, const char *const labels[2],
                                       int64_t records, const uint8_t *pickle, size_t size, uint8_t **binary);
