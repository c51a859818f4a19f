/* The context: status and message of the first failure, and the log. */
#include "core/context.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

void d9_context_init(d9_context *context) { *context = (d9_context){.system = d9_system_default()}; }

int d9_control_bytes(const char *at) {
    const unsigned char first = (unsigned char)at[0], second = first ? (unsigned char)at[1] : 0;
    if (first == 0xc2 && second >= 0x80 && second <= 0x9f) return 2;
    return first && (first < ' ' || first == 127);
}

/* Replaces control characters, which paths and words from files may contain, by spaces: a message is one line and
 * cannot control a terminal. */
static void blank_control_characters(char *line) {
    for (int bytes; *line; line += bytes ? bytes : 1) {
        bytes = d9_control_bytes(line);
        memset(line, ' ', (size_t)bytes);
    }
}

d9_status d9_fail(d9_context *context, d9_status status, const char *format, ...) {
    if (context->status != D9_OK) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->message, sizeof context->message, format, arguments);
    va_end(arguments);
    blank_control_characters(context->message);
    context->status = status;
    return status;
}

void d9_context_clear(d9_context *context) {
    context->status = D9_OK;
    context->message[0] = 0;
}

void d9_log(d9_context *context, d9_log_level level, const char *format, ...) {
    if (!context->log) return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    blank_control_characters(line);
    context->log(context->log_user, level, line);
}
