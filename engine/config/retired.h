/* Keys that configurations of earlier versions have: in old model files and records, and perhaps in a user's own. */
#ifndef D9_CONFIG_RETIRED_H
#define D9_CONFIG_RETIRED_H

#include "config/tree.h"

/* Takes every retired key out of a configuration, with a warning each that names its place. */
void d9_retired_remove(d9_context *context, d9_tree *root);

/* The hash of a configuration counts a retired key's line at its old value, so that it stays what it was. Adds the
 * lines that stood in front of `section`'s `key`. */
void d9_retired_add_hashed(const char *section, const char *key, d9_text *text);

#endif
