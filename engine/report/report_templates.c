/* The files of plots/, built in, so that a report needs nothing but the program: cmake/embed.cmake makes the header. */
#include "report/report_parts.h"
#include "templates.h" /* generated: templates[], each followed by a zero byte */

#include <string.h>

const d9_template *d9_template_at(int index) {
    const int count = (int)(sizeof templates / sizeof *templates);
    return index >= 0 && index < count ? &templates[index] : NULL;
}

const char *d9_template_find(const char *name) {
    const d9_template *template;
    for (int i = 0; (template = d9_template_at(i)); i++)
        if (strcmp(template->name, name) == 0) return template->bytes;
    return "";
}
