/* Help texts made from the option tables: description of an option, lookup of a key by its path, and the text of
 * docs/config.md. */
#pragma once

#include "config/config.h"

/* Appends the legal values of an option, "number, 0 to 1" or "one of a, b"; d9_option_describe also its default. */
void d9_option_values(const d9_option *option, d9_text *text);
void d9_option_describe(const d9_option *option, d9_text *text); /* "number, 0 to 1; default 0.99" */

/* Appends the help text of an option, then for each of its named values `between` and its meaning, "sgd: ...". */
void d9_option_explain(const d9_option *option, const char *between, d9_text *text);

typedef struct d9_key {
    char path[96];       /* as in --set: "seed", "train.lr", "model.channels", "tricks.ema.every" */
    const char *section; /* as d9_config_section names it */
    const d9_option *option;
} d9_key;

/* Enumerates all keys in the order of the reference page. False past the end. */
bool d9_config_key(int index, d9_key *key);
bool d9_config_key_find(const char *path, d9_key *key);

/* Appends the paths of keys, except those of `published`, that end in `word`, separated by " or ": "epochs" ->
 * "train.epochs". If there are none, appends the path of the trick with this name: "ema" -> "tricks.ema". False if
 * nothing was appended. */
bool d9_config_key_paths(const char *word, d9_text *text);

/* Appends the text of docs/config.md: all keys by section, in Markdown. */
void d9_config_reference(d9_text *text);
