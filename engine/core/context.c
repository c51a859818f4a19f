/* The context: status and message of the first failure, and the log. */
#include "core/context.h"
#include "core/system.h"
#include "core/text.h"

#include <stdio.h>
#include <string.h>

void d9_context_init(d9_context *context) { *context = (d9_context){.system = d9_system_default()}; }

/* True for invisible format characters of Unicode 15: most of category Cf, and line and paragraph separator. Some of
 * them reorder the text around them. Also true for U+FFFE and U+FFFF, which are no characters and not legal in YAML. */
static bool is_invisible(uint32_t c) {
    static const uint32_t ranges[][2] = {{0xad, 0xad},     {0x61c, 0x61c},    {0x180e, 0x180e}, {0x200b, 0x200f},
                                         {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
                                         {0xfffe, 0xffff}, {0xe0000, 0xe007f}};
    bool found = false;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) found |= c >= ranges[i][0] && c <= ranges[i][1];
    return found;
}

int d9_control_bytes(const char *at) {
    const unsigned char lead = (unsigned char)*at;
    const int length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const char *end = at;
    const uint32_t c = lead ? d9_text_next(&end) : 0;
    if (end - at != length) return 0; /* end of the text, or an invalid or truncated sequence */
    return c < ' ' || (c >= 127 && c < 0xa0) || is_invisible(c) ? length : 0;
}

/* Replaces control and invisible format characters (d9_control_bytes), which paths and words from files may contain, by
 * spaces, one for each byte: a message is one line and cannot control a terminal. */
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
