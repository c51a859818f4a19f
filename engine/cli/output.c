/* Standard output through the system table, so that a full disk and a closed pipe are seen where they happen.
 */
#include "cli/cli.h"
#include "core/system.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void write_out(d9_cli *cli, const char *bytes, size_t size) {
    const d9_system *system = cli->context.system;
    while (size > 0 && cli->output_error == 0) {
        ssize_t put = system->write(system->user, STDOUT_FILENO, bytes, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            cli->output_error = put < 0 ? errno : ENOSPC;
        } else {
            bytes += put;
            size -= (size_t)put;
        }
    }
}

void d9_cli_print(d9_cli *cli, const char *format, ...) {
    char line[1024], *text = line;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(line, sizeof line, format, arguments);
    if (length >= (int)sizeof line) {
        char *longer;
        if (D9_ARENA_ALLOCATE(&cli->context, &cli->arena, length + 1, &longer) == D9_OK)
            vsnprintf(text = longer, (size_t)length + 1, format, again);
        else
            length = (int)sizeof line - 1; /* the failure is in the context already */
    }
    if (length > 0) write_out(cli, text, (size_t)length);
    va_end(again);
    va_end(arguments);
}

int d9_cli_columns(const d9_cli *cli) {
    struct winsize size;
    if (!cli->terminal) return INT_MAX;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void print_object(d9_cli *cli, json_t *object, size_t format) {
    char *dump = object ? json_dumps(object, format) : NULL;
    if (dump) {
        write_out(cli, dump, strlen(dump));
        write_out(cli, "\n", 1);
    } else {
        cli->output_error = ENOMEM;
    }
    free(dump);
    json_decref(object);
}

void d9_cli_print_json(d9_cli *cli, json_t *object) {
    print_object(cli, object, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
}

void d9_cli_print_json_line(d9_cli *cli, json_t *object, int digits) {
    print_object(cli, object, JSON_COMPACT | JSON_REAL_PRECISION((size_t)digits));
}

d9_status d9_cli_print_text(d9_cli *cli, d9_text *text) {
    const d9_status status = d9_text_status(text);
    if (status == D9_OK) write_out(cli, d9_text_get(text), text->size);
    d9_text_free(text);
    return status;
}

d9_status d9_cli_finish(d9_cli *cli, d9_status status) {
    const d9_system *system = cli->context.system;
    if (status != D9_OK) return status;
    if (cli->output_error == 0 && system->close(system->user, STDOUT_FILENO) != 0 && errno != EBADF)
        cli->output_error = errno;
    if (cli->output_error == 0) return D9_OK;
    return d9_fail(&cli->context, D9_OUTPUT, "standard output: cannot write: %s", strerror(cli->output_error));
}
