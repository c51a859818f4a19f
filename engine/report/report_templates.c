/* The files of plots/, compiled into the program: cmake/embed.cmake generates the header. */
#include "report/report.h"
#include "templates.h" /* generated: templates[], each followed by a zero byte */

#include <string.h>

const d9_template *d9_template_at(int index) {
    const int count = (int)(sizeof templates / sizeof *templates);
    return index >= 0 && index < count ? &templates[index] : NULL;
}

static const char *find_template(const char *name) {
    const d9_template *template;
    for (int i = 0; (template = d9_template_at(i)); i++)
        if (strcmp(template->name, name) == 0) return template->bytes;
    return "";
}

void d9_template_fill(const char *name, void (*put)(void *user, const char *place, size_t length), void *user,
                      d9_text *text) {
    const char *rest = find_template(name);
    for (const char *open; (open = strstr(rest, "{{")); rest = strstr(open, "}}") + 2) {
        d9_text_add(text, "%.*s", (int)(open - rest), rest);
        put(user, open + 2, strcspn(open + 2, "}"));
    }
    d9_text_add(text, "%s", rest);
}
