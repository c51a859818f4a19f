/* Output of commands, through d9_system, so that errors such as a full disk or a closed pipe are detected. */
#include "cli/cli.h"
#include "core/system.h"
#include "record/effective.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int d9_cli_write(const d9_system *system, int file, const char *bytes, size_t size) {
    struct pollfd reader = {.fd = file, .events = POLLOUT};
    while (size > 0) {
        const ssize_t put = system->write(system->user, file, bytes, size);
        if (put == 0) return ENOSPC;
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        } else if (errno == EAGAIN) { /* the parent has made the file non-blocking */
            poll(&reader, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static void write_stdout(d9_cli *cli, const char *bytes, size_t size) {
    if (cli->parallel.rank > 0 || cli->output_error) return;
    cli->output_error = d9_cli_write(cli->context.system, STDOUT_FILENO, bytes, size);
}

d9_status d9_cli_print_text(d9_cli *cli, d9_text *text) {
    const d9_status status = d9_text_status(text);
    if (status == D9_OK) write_stdout(cli, d9_text_get(text), text->size);
    d9_text_free(text);
    return status;
}

/* A conversion of a format string. */
typedef struct conversion {
    char spec[48]; /* all of it, "%-12.3f", with each `*` replaced by its argument */
    char length;   /* 'L' for ll, 'l', 'z'; 0: none */
    char letter;
} conversion;

/* Parses the conversion after the percent sign; returns the position after it. */
static const char *read_conversion(const char *at, va_list *arguments, conversion *found) {
    int used = snprintf(found->spec, sizeof found->spec, "%%");
    for (; strchr("-+ #0123456789.*", *at); at++)
        used += *at == '*'
                    ? snprintf(found->spec + used, sizeof found->spec - (size_t)used, "%d", va_arg(*arguments, int))
                    : snprintf(found->spec + used, sizeof found->spec - (size_t)used, "%c", *at);
    for (found->length = 0; *at == 'l' || *at == 'z'; at++) found->length = (char)(found->length == 'l' ? 'L' : *at);
    snprintf(found->spec + used, sizeof found->spec - (size_t)used, "%s%c",
             found->length == 'L' ? "ll" : (char[]){found->length, 0}, *at);
    found->letter = *at;
    return at + 1;
}

/* Adds a text; pads it for "%12s" and "%-12s" to terminal columns, because printf counts bytes. */
static void add_padded(d9_text *text, const char *spec, const char *shown) {
    const bool left = spec[1] == '-';
    const int width = (int)strtol(spec + 1 + left, NULL, 10), columns = d9_text_columns(shown),
              padding = columns < width ? width - columns : 0;
    if (strchr(spec, '.'))
        d9_text_add(text, spec, shown);
    else if (left)
        d9_text_add(text, "%s%*s", shown, padding, "");
    else
        d9_text_add(text, "%*s%s", padding, "", shown);
}

/* Formats one argument. Escapes texts (%s), because those from files and users may contain control characters. */
static void add_conversion(d9_cli *cli, d9_text *text, const conversion *c, va_list *arguments) {
    d9_text shown;
    switch (c->letter) {
    case 's':
        d9_text_init(&cli->context, &shown);
        d9_text_add_escaped(&shown, va_arg(*arguments, const char *));
        add_padded(text, c->spec, d9_text_get(&shown));
        d9_text_free_part(&shown, text);
        break;
    case 'd':
    case 'u':
    case 'x':
        if (c->length == 'L')
            d9_text_add(text, c->spec, va_arg(*arguments, long long));
        else if (c->length)
            d9_text_add(text, c->spec, va_arg(*arguments, long)); /* long has the size of size_t */
        else
            d9_text_add(text, c->spec, va_arg(*arguments, int));
        break;
    case 'c':
        d9_text_add(text, c->spec, va_arg(*arguments, int));
        break;
    case '%':
        d9_text_add(text, "%%");
        break;
    default: /* e, f, g */
        d9_text_add(text, c->spec, va_arg(*arguments, double));
    }
}

void d9_cli_print(d9_cli *cli, const char *format, ...) {
    va_list arguments;
    conversion found;
    d9_text text;
    d9_text_init(&cli->context, &text);
    va_start(arguments, format);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        d9_text_add(&text, "%.*s", (int)plain, format);
        format += plain;
        if (!*format) break;
        format = read_conversion(format + 1, &arguments, &found);
        add_conversion(cli, &text, &found, &arguments);
    }
    va_end(arguments);
    if (d9_cli_print_text(cli, &text) != D9_OK) cli->output_error = ENOMEM;
}

int d9_cli_columns(const d9_cli *cli) {
    struct winsize size;
    if (!cli->terminal) return INT_MAX;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void print_object(d9_cli *cli, json_t *object, size_t format) {
    /* JSON_ENSURE_ASCII: terminals also obey control characters beyond ASCII */
    char *dump = object ? json_dumps(object, format | JSON_ENSURE_ASCII) : NULL;
    if (dump) {
        write_stdout(cli, dump, strlen(dump));
        write_stdout(cli, "\n", 1);
    } else {
        cli->output_error = ENOMEM;
    }
    free(dump);
    json_decref(object);
}

json_t *d9_cli_json_text(d9_cli *cli, const char *text) { return d9_json_path(&cli->context, &cli->arena, text); }

void d9_cli_print_json(d9_cli *cli, json_t *object) {
    print_object(cli, object, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
}

void d9_cli_print_json_line(d9_cli *cli, json_t *object, int digits) {
    print_object(cli, object, JSON_COMPACT | JSON_REAL_PRECISION((size_t)digits));
}

d9_status d9_cli_finish(d9_cli *cli, d9_status status) {
    const d9_system *system = cli->context.system;
    if (status != D9_OK) return status;
    if (cli->output_error == 0 && system->close(system->user, STDOUT_FILENO) != 0 && errno != EBADF)
        cli->output_error = errno;
    if (cli->output_error == 0 || cli->output_error == EPIPE) return D9_OK;
    return d9_fail(&cli->context, D9_OUTPUT, "standard output: cannot write: %s", strerror(cli->output_error));
}
